"""InitProducerId: a new id for an idempotent producer (KIP-98, KIP-360).

A transactional id is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED until there are transactions. It
is the one code that every client takes as final for `init_transactions`: the coordinator's codes make
clients try again for ever, and of others some clients make a retriable error.
"""

import structlog

from kohort.broker.handlers.data.family import Data
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kohort.storage import StorageError

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FIRST_EPOCH = 0

log = structlog.get_logger("kohort.producer")


async def handle(data: Data, message: InitProducerIdRequest, request: Request) -> InitProducerIdResponse:
    """Return an id that no producer has had, with its first epoch; an id that was sent is not kept."""
    has_id, has_epoch = message.producer_id != NO_PRODUCER_ID, message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or message.transactional_id == "":
        return _refuse(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        log.warning(
            "a transactional producer was refused: this version of kohort has no transactions",
            transactional_id=message.transactional_id,
            client_id=request.client_id,
        )
        return _refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        producer_id = await data.producer_ids.next()
    except StorageError as error:
        log.error("no producer ids could be allocated", error=str(error))
        return _refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
