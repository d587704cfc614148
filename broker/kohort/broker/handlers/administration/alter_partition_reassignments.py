"""AlterPartitionReassignments: a partition can only be put where it is, for there is one broker.

Source: ReplicationControlManager.alterPartitionReassignments, and what Apache Kafka 4.3.1 was seen to answer.
"""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

_PREFIX = "The manual partition assignment includes"


def handle(
    admin: Administration, message: AlterPartitionReassignmentsRequest, request: Request
) -> AlterPartitionReassignmentsResponse:
    """Return for each partition that it is where it is asked to be, or why it can't be there."""
    snapshot = admin.metadata.snapshot()
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_result(snapshot, topic.name, each) for each in topic.partitions),
            )
            for topic in message.topics
        ),
    )


def _result(snapshot: Snapshot, topic: str, wanted: ReassignablePartition) -> ReassignablePartitionResponse:
    index = wanted.partition_index
    try:
        _check(snapshot, topic, index, wanted.replicas)
    except ApiError as error:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return ReassignablePartitionResponse(partition_index=index, error_code=ErrorCode.NONE, error_message=None)


def _check(snapshot: Snapshot, topic: str, index: int, replicas: tuple[int, ...] | None) -> None:
    """Return where nothing is to be moved. Raises: ApiError. None asks to end a move that is under way."""
    state = snapshot.topics.get(topic)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if not 0 <= index < len(state.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not replicas:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_PREFIX} an empty replica list.")
    known = {broker.node_id for broker in snapshot.brokers}
    for place, node_id in enumerate(replicas):
        if node_id not in known:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{_PREFIX} broker {node_id}, but no such broker is registered.",
            )
        if node_id in replicas[:place]:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_PREFIX} the broker {node_id} more than once."
            )
