"""FindCoordinator: which broker keeps a group, or a transactional id.

Kafka: KafkaApis.handleFindCoordinatorRequest, KIP-699. `__consumer_offsets` and `__transaction_state` are
created at the first question for what they keep. Share groups have no coordinator here, and in a cluster
transactions have none. Clients would ask again for COORDINATOR_NOT_AVAILABLE until they time out, so they
get a code that they take as final; for transactions the one that InitProducerId gives as well.
"""

from collections.abc import Awaitable, Sequence

import structlog

from kohort.broker.group import coordinator_partition
from kohort.broker.handlers.groups.family import Groups
from kohort.broker.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.find_coordinator import Coordinator

GROUP = 0
TRANSACTION = 1
REFUSALS = {
    1: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported in a cluster"),
    2: (ErrorCode.INVALID_REQUEST, "share groups are not supported"),
}
BATCHED_FROM = 4
NO_ERROR = "NONE"  # What Kafka writes as the message of a success, before version 4.

log = structlog.get_logger("kohort.group")


def handle(
    groups: Groups, message: FindCoordinatorRequest, request: Request
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return who keeps each group asked for; later, where the topic is made or groups loaded first."""
    if message.key_type == GROUP:
        group_ids = message.coordinator_keys if request.version >= BATCHED_FROM else (message.key,)
        created = OFFSETS_TOPIC in groups.metadata.snapshot().topics
        if not created or not groups.coordinators.are_ready(group_ids):
            return _when_ready(groups, message, request, group_ids)
    elif message.key_type == TRANSACTION and groups.transactions is not None:
        return _transactions_when_ready(groups, message, request)
    return _answer(groups, message, request, ErrorCode.NONE)


async def _when_ready(
    groups: Groups, message: FindCoordinatorRequest, request: Request, group_ids: Sequence[str]
) -> FindCoordinatorResponse:
    try:
        await groups.ensure_offsets_topic()
    except ApiError as error:
        log.error("the offsets topic could not be created", error=str(error))
        return _answer(groups, message, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await groups.coordinators.ready(group_ids)
    return _answer(groups, message, request, ErrorCode.NONE)


async def _transactions_when_ready(
    groups: Groups, message: FindCoordinatorRequest, request: Request
) -> FindCoordinatorResponse:
    assert groups.transactions is not None
    coordinators = groups.transactions()
    try:
        await coordinators.ensure_topic()
    except ApiError as error:
        log.error("the topic of transactions could not be created", error=str(error))
        return _answer(groups, message, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await coordinators.ready(message.coordinator_keys if request.version >= BATCHED_FROM else (message.key,))
    return _answer(groups, message, request, ErrorCode.NONE)


def _answer(
    groups: Groups, message: FindCoordinatorRequest, request: Request, code: ErrorCode
) -> FindCoordinatorResponse:
    version, listener = request.version, request.connection.listener
    text = NO_ERROR if version < BATCHED_FROM else ""
    topic = OFFSETS_TOPIC
    if message.key_type == TRANSACTION and groups.transactions is not None:
        topic = TRANSACTIONS_TOPIC
    elif message.key_type != GROUP:
        unknown = ErrorCode.INVALID_REQUEST, f"key type {message.key_type} is unknown"
        code, text = REFUSALS.get(message.key_type, unknown)
    snapshot = groups.metadata.snapshot()
    keys = message.coordinator_keys if version >= BATCHED_FROM else (message.key,)
    found = tuple(_found(snapshot, topic, key, code, text, listener=listener) for key in keys)
    if version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _found(
    snapshot: Snapshot, topic_name: str, key: str, code: ErrorCode, text: str, *, listener: int
) -> Coordinator:
    """Return the leader of the key's partition, or the error why there is none."""
    if code is not ErrorCode.NONE:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)
    topic = snapshot.topics[topic_name]
    leader = topic.partitions[coordinator_partition(key, len(topic.partitions))].leader
    broker = snapshot.broker(leader)
    if broker is None:
        return _found(snapshot, topic_name, key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "", listener=listener)
    host, port = broker.address(listener)
    return Coordinator(
        key=key,
        node_id=broker.node_id,
        host=host,
        port=port,
        error_code=code,
        error_message=text,
    )
