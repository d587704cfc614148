"""AlterShareGroupOffsets (91): change the start offsets of an empty share group (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Uuid,
    field,
)


@struct
class AlterShareGroupOffsetsPartition(Message):
    """`partitions` in `AlterShareGroupOffsetsTopic`."""

    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsTopic(Message):
    """`topics` in `AlterShareGroupOffsetsRequest`."""

    topic_name: String
    partitions: Array[AlterShareGroupOffsetsPartition]


@message(api_key=91, versions="0", flexible="0+", max_items=MAX_PARTITIONS)
class AlterShareGroupOffsetsRequest(Message):
    """The new start offsets. Kafka: AlterShareGroupOffsetsRequest.json."""

    group_id: String
    topics: Array[AlterShareGroupOffsetsTopic]


@struct
class AlterShareGroupOffsetsResponsePartition(Message):
    """`partitions` in `AlterShareGroupOffsetsResponseTopic`."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Message):
    """`responses` in `AlterShareGroupOffsetsResponse`."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[AlterShareGroupOffsetsResponsePartition]


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    """The result of each partition. Kafka: AlterShareGroupOffsetsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    responses: Array[AlterShareGroupOffsetsResponseTopic]
