"""CreatePartitions (37): add partitions to topics."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_NAMED
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
class CreatePartitionsAssignment(Message):
    """One of `assignments` in `CreatePartitionsTopic`."""

    broker_ids: Array[Int32]


@struct
class CreatePartitionsTopic(Message):
    """One of `topics` in `CreatePartitionsRequest`."""

    name: String
    count: Int32
    assignments: NullableArray[CreatePartitionsAssignment]


@message(api_key=37, versions="0-3", flexible="2+", max_items=MAX_NAMED)
class CreatePartitionsRequest(Message):
    """The new number of partitions of each topic. Kafka: CreatePartitionsRequest.json."""

    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult(Message):
    """One of `results` in `CreatePartitionsResponse`."""

    name: String
    error_code: Int16
    error_message: NullableString = field(default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """The result of each topic. Kafka: CreatePartitionsResponse.json."""

    throttle_time_ms: Int32
    results: Array[CreatePartitionsTopicResult]
