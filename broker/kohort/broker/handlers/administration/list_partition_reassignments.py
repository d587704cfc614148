"""ListPartitionReassignments: no partition is ever on the move, for there is one broker."""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse


def handle(
    admin: Administration, message: ListPartitionReassignmentsRequest, request: Request
) -> ListPartitionReassignmentsResponse:
    """Return that there are none; topics that do not exist are passed over, as Kafka does."""
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, topics=()
    )
