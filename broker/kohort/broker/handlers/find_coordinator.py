"""FindCoordinator: which broker keeps a group. Kafka: KafkaApis.handleFindCoordinatorRequest, KIP-699.

`__consumer_offsets` is created at the first question for a group. Transactions and share groups have no
coordinator here. Clients would ask again for COORDINATOR_NOT_AVAILABLE until they time out, so they get
a code that they take as final; for transactions the one that InitProducerId gives as well.
"""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

import structlog

from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.find_coordinator import Coordinator

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request

GROUP = 0
REFUSALS = {
    1: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported"),
    2: (ErrorCode.INVALID_REQUEST, "share groups are not supported"),
}
BATCHED_FROM = 4
NO_ERROR = "NONE"  # What Kafka writes as the message of a success, before version 4.

log = structlog.get_logger("kohort.group")


def handle(
    broker: "Broker", message: FindCoordinatorRequest, request: "Request"
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return this broker for every group asked for; later, where the topic is made or groups loaded first."""
    if message.key_type == GROUP:
        groups = message.coordinator_keys if request.version >= BATCHED_FROM else (message.key,)
        created = OFFSETS_TOPIC in broker.metadata.snapshot().topics
        if not created or not broker.coordinators.are_ready(groups):
            return _when_ready(broker, message, request.version, groups)
    return _answer(broker, message, request.version, ErrorCode.NONE)


async def _when_ready(
    broker: "Broker", message: FindCoordinatorRequest, version: int, groups: Sequence[str]
) -> FindCoordinatorResponse:
    try:
        await broker.ensure_offsets_topic()
    except ApiError as error:
        log.error("the offsets topic could not be created", error=str(error))
        return _answer(broker, message, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await broker.coordinators.ready(groups)
    return _answer(broker, message, version, ErrorCode.NONE)


def _answer(
    broker: "Broker", message: FindCoordinatorRequest, version: int, code: ErrorCode
) -> FindCoordinatorResponse:
    text = NO_ERROR if version < BATCHED_FROM else ""
    if message.key_type != GROUP:
        unknown = ErrorCode.INVALID_REQUEST, f"key type {message.key_type} is unknown"
        code, text = REFUSALS.get(message.key_type, unknown)
    host, port = broker.advertised if code is ErrorCode.NONE else ("", -1)
    node_id = broker.node_id if code is ErrorCode.NONE else -1
    if version < BATCHED_FROM:
        return FindCoordinatorResponse(
            error_code=code, error_message=text, node_id=node_id, host=host, port=port
        )
    return FindCoordinatorResponse(
        coordinators=tuple(
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=text)
            for key in message.coordinator_keys
        ),
    )
