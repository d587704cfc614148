"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455)."""

from kohort.broker.controller.requests import moving
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    admin: Administration, message: ListPartitionReassignmentsRequest, request: Request
) -> ListPartitionReassignmentsResponse:
    """Return those that move now; topics that do not exist are passed over, as Kafka does."""
    places = None
    if message.topics is not None:
        places = [(topic.name, index) for topic in message.topics for index in topic.partition_indexes]
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=name,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=each.index,
                        replicas=each.replicas,
                        adding_replicas=each.adding,
                        removing_replicas=each.removing,
                    )
                    for each in states
                ),
            )
            for name, states in moving(admin.metadata.snapshot(), places).items()
        ),
    )
