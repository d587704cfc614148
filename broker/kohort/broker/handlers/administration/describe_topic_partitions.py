"""DescribeTopicPartitions: topics in the order of their names, a limited number of partitions at a time
(KIP-966)."""

from kohort.broker.handlers.administration.authorized_operations import NOT_ASKED, TOPIC_OPERATIONS
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import NO_LEADER, PartitionState, Snapshot, TopicState, offline_replicas
from kohort.broker.metadata.topic_names import is_valid_topic_name
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID

LARGEST_PAGE = 2_000  # max.request.partition.size.limit of Kafka


def handle(
    admin: Administration, message: DescribeTopicPartitionsRequest, request: Request
) -> DescribeTopicPartitionsResponse:
    """Return one page of partitions; those of every topic where the request names none."""
    snapshot = admin.metadata.snapshot()
    names, first = _in_order(snapshot, message)
    live = frozenset(each.node_id for each in snapshot.brokers)
    if first < 0:
        return _refused(names)
    room = min(max(message.response_partition_limit, 1), LARGEST_PAGE)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return _page(topics, name, 0)
        topic = snapshot.topics.get(name)
        if topic is None:
            # Topics that are not there were named by the client; where it named none they are gone.
            if message.topics:
                topics.append(_unknown(name))
            first = 0
            continue
        shown = topic.partitions[first : first + room]
        topics.append(_described(topic, shown, live))
        room -= len(shown)
        if first + len(shown) < len(topic.partitions):
            return _page(topics, name, first + len(shown))
        first = 0
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=tuple(topics))


def _in_order(snapshot: Snapshot, message: DescribeTopicPartitionsRequest) -> tuple[list[str], int]:
    """Return the names from the cursor on, and the first partition of the first of them.

    The partition is negative, and the names are those of the request, if the cursor can't be.
    """
    asked = {topic.name for topic in message.topics}
    names = sorted(asked or snapshot.topics)
    cursor = message.cursor
    if cursor is None:
        return names, 0
    if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
        return names if asked else [], -1
    rest = [name for name in names if name >= cursor.topic_name]
    return rest, cursor.partition_index if rest and rest[0] == cursor.topic_name else 0


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=tuple(_error(ErrorCode.INVALID_REQUEST, name, NOT_ASKED) for name in names),
    )


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], name: str, partition: int
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=tuple(topics),
        next_cursor=DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = is_valid_topic_name(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _error(code, name, TOPIC_OPERATIONS)


def _error(code: ErrorCode, name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _described(
    topic: TopicState, partitions: tuple[PartitionState, ...], live: frozenset[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(each, live) for each in partitions),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: PartitionState, live: frozenset[int]) -> DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader in live
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline_replicas(partition, live),
    )
