"""FindCoordinator: which broker keeps a group, a transactional id, or the state of a share partition.

Kafka: KafkaApis.handleFindCoordinatorRequest, KIP-699. The internal topics are created at the first
request. Without share groups, a client would repeat its request for COORDINATOR_NOT_AVAILABLE until it
times out, so it gets a final error code.
"""

from collections.abc import Awaitable, Sequence

import structlog

from kohort.broker.group import coordinator_partition
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.metadata import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
SHARE = 2
BATCHED_FROM = 4
NO_ERROR = "NONE"  # What Kafka writes as the message of a success, before version 4.

log = structlog.get_logger("kohort.group")


def handle(
    groups: GroupServices, message: FindCoordinatorRequest, request: Request
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return the coordinator of each key; later, if the topic is created or groups are loaded first."""
    if message.key_type == GROUP:
        group_ids = message.coordinator_keys if request.version >= BATCHED_FROM else (message.key,)
        created = OFFSETS_TOPIC in groups.metadata.snapshot().topics
        if not created or not groups.shards.are_ready(group_ids):
            return _when_ready(groups, message, request, group_ids)
    elif message.key_type == TRANSACTION:
        return _transactions_when_ready(groups, message, request)
    elif message.key_type == SHARE and groups.shares is not None:
        return _shares_when_ready(groups, message, request)
    return _answer(groups, message, request, ErrorCode.NONE)


async def _when_ready(
    groups: GroupServices, message: FindCoordinatorRequest, request: Request, group_ids: Sequence[str]
) -> FindCoordinatorResponse:
    try:
        await groups.ensure_offsets_topic()
    except ApiError as error:
        log.error("the offsets topic could not be created", error=str(error))
        return _answer(groups, message, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await groups.shards.ready(group_ids)
    return _answer(groups, message, request, ErrorCode.NONE)


async def _transactions_when_ready(
    groups: GroupServices, message: FindCoordinatorRequest, request: Request
) -> FindCoordinatorResponse:
    assert groups.transactions is not None
    shards = groups.transactions()
    try:
        await shards.ensure_topic()
    except ApiError as error:
        log.error("the topic of transactions could not be created", error=str(error))
        return _answer(groups, message, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await shards.ready(message.coordinator_keys if request.version >= BATCHED_FROM else (message.key,))
    return _answer(groups, message, request, ErrorCode.NONE)


async def _shares_when_ready(
    groups: GroupServices, message: FindCoordinatorRequest, request: Request
) -> FindCoordinatorResponse:
    assert groups.shares is not None
    try:
        await groups.shares().states.ensure_topic()
    except ApiError as error:
        log.error("the topic of share state could not be created", error=str(error))
        return _answer(groups, message, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _answer(groups, message, request, ErrorCode.NONE)


def _answer(
    groups: GroupServices, message: FindCoordinatorRequest, request: Request, code: ErrorCode
) -> FindCoordinatorResponse:
    version, listener = request.version, request.connection.listener
    text = NO_ERROR if version < BATCHED_FROM else ""
    topic = OFFSETS_TOPIC
    if message.key_type == TRANSACTION:
        topic = TRANSACTIONS_TOPIC
    elif message.key_type == SHARE and groups.shares is not None:
        topic = SHARE_STATE_TOPIC
    elif message.key_type != GROUP:
        code, text = ErrorCode.INVALID_REQUEST, f"key type {message.key_type} is unknown"
        if message.key_type == SHARE:
            text = "share groups are not supported"
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
    """Return the leader of the key's partition, or the error."""
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
