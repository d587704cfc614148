"""ListPartitionReassignments (46): list ongoing reassignments."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    field,
)


@struct
class ListPartitionReassignmentsTopic(Message):
    """One of `topics` in `ListPartitionReassignmentsRequest`."""

    name: String
    partition_indexes: Array[Int32]


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """Partitions; null for all. Kafka: ListPartitionReassignmentsRequest.json."""

    timeout_ms: Int32 = field(default=60000)
    topics: NullableArray[ListPartitionReassignmentsTopic] = field(default=None)


@struct
class OngoingPartitionReassignment(Message):
    """One of `partitions` in `OngoingTopicReassignment`."""

    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


@struct
class OngoingTopicReassignment(Message):
    """One of `topics` in `ListPartitionReassignmentsResponse`."""

    name: String
    partitions: Array[OngoingPartitionReassignment]


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """The partitions that are being reassigned. Kafka: ListPartitionReassignmentsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    topics: Array[OngoingTopicReassignment]
