"""DescribeShareGroupOffsets (90): the start offsets of share groups (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)


@struct
class DescribeShareGroupOffsetsTopic(Message):
    """`topics` in `DescribeShareGroupOffsetsGroup`."""

    topic_name: String
    partitions: Array[Int32]


@struct
class DescribeShareGroupOffsetsGroup(Message):
    """`groups` in `DescribeShareGroupOffsetsRequest`."""

    group_id: String
    topics: NullableArray[DescribeShareGroupOffsetsTopic]


@message(api_key=90, versions="0-1", flexible="0+", max_items=MAX_PARTITIONS)
class DescribeShareGroupOffsetsRequest(Message):
    """Groups with partitions. Null topics mean all topics of the group.

    Kafka: DescribeShareGroupOffsetsRequest.json.
    """

    groups: Array[DescribeShareGroupOffsetsGroup]


@struct
class DescribeShareGroupOffsetsPartition(Message):
    """`partitions` in `DescribeShareGroupOffsetsResponseTopic`."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = field(default=-1, versions="1+", ignorable=True)
    error_code: Int16
    error_message: NullableString = field(default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Message):
    """`topics` in `DescribeShareGroupOffsetsResponseGroup`."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[DescribeShareGroupOffsetsPartition]


@struct
class DescribeShareGroupOffsetsResponseGroup(Message):
    """`groups` in `DescribeShareGroupOffsetsResponse`."""

    group_id: String
    topics: Array[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: NullableString = field(default=None)


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The start offset and the lag (KIP-1226) of each share partition.

    Kafka: DescribeShareGroupOffsetsResponse.json.
    """

    throttle_time_ms: Int32
    groups: Array[DescribeShareGroupOffsetsResponseGroup]
