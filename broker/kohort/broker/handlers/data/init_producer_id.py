"""InitProducerId: a new id for an idempotent producer, the id and a new epoch for a transactional one.

Source: KIP-98, KIP-360.
"""

from typing import TYPE_CHECKING

import structlog

from kohort.broker.handlers.data.family import Data
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.handlers.transactions.family import TransactionServices

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FIRST_EPOCH = 0

log = structlog.get_logger("kohort.producer")


async def handle(
    data: Data, message: InitProducerIdRequest, request: Request
) -> InitProducerIdResponse | None:
    """Return an id that no producer has had, with its first epoch; an id that was sent is not kept.

    A transactional producer is answered by its coordinator, once that is durable.
    """
    has_id, has_epoch = message.producer_id != NO_PRODUCER_ID, message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or message.transactional_id == "":
        return _refuse(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        assert data.transactions is not None
        return await _of_transactions(data.transactions, message, request)
    try:
        producer_id = await data.producer_ids.next()
    except StorageError as error:
        log.error("no producer ids could be allocated", error=str(error))
        return _refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


async def _of_transactions(
    transactions: "TransactionServices", message: InitProducerIdRequest, request: Request
) -> InitProducerIdResponse | None:
    """Ask the coordinator, with an unused id if it may need one."""
    from kohort.broker.transactions.answers import init_answer  # noqa: PLC0415
    from kohort.broker.transactions.commands import InitProducerId  # noqa: PLC0415  # At first use.

    assert message.transactional_id is not None
    try:
        fresh = None
        if (
            transactions.shards()
            .deciding_shard_of(message.transactional_id)
            .core.needs_producer_id(message.transactional_id)
        ):
            fresh = await transactions.producer_ids.next()
        shard = transactions.shards().deciding_shard_of(message.transactional_id)
    except ApiError as error:
        return init_answer(error.code, request.version)
    except StorageError as error:
        log.error("no producer ids could be allocated", error=str(error))
        return init_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, request.version)
    request_id = shard.ask(request, request.respond)
    shard.submit(InitProducerId(request_id, message, request.version, fresh))
    return None


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
