"""AlterPartitionReassignments (45): start or cancel reassignments of partitions."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    field,
)


@struct
class ReassignablePartition(Message):
    """One of `partitions` in `ReassignableTopic`."""

    partition_index: Int32
    replicas: NullableArray[Int32] = field(default=None)


@struct
class ReassignableTopic(Message):
    """One of `topics` in `AlterPartitionReassignmentsRequest`."""

    name: String
    partitions: Array[ReassignablePartition]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    """The target replicas of partitions; null cancels a reassignment.

    Kafka: AlterPartitionReassignmentsRequest.json.
    """

    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field(default=True, versions="1+")
    topics: Array[ReassignableTopic]


@struct
class ReassignablePartitionResponse(Message):
    """One of `partitions` in `ReassignableTopicResponse`."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString


@struct
class ReassignableTopicResponse(Message):
    """One of `responses` in `AlterPartitionReassignmentsResponse`."""

    name: String
    partitions: Array[ReassignablePartitionResponse]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """The result of each partition. Kafka: AlterPartitionReassignmentsResponse.json."""

    throttle_time_ms: Int32
    allow_replication_factor_change: Bool = field(default=True, versions="1+", ignorable=True)
    error_code: Int16
    error_message: NullableString
    responses: Array[ReassignableTopicResponse]
