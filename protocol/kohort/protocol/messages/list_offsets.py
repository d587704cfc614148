"""ListOffsets (2): the offset for a timestamp, or the ends of a log."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, field


@struct
class ListOffsetsPartition(Message):
    """One of `partitions` in `ListOffsetsTopic`."""

    partition_index: Int32
    current_leader_epoch: Int32 = field(default=-1, versions="4+", ignorable=True)
    timestamp: Int64


@struct
class ListOffsetsTopic(Message):
    """One of `topics` in `ListOffsetsRequest`."""

    name: String
    partitions: Array[ListOffsetsPartition]


@message(api_key=2, versions="1-11", flexible="6+", max_items=MAX_PARTITIONS)
class ListOffsetsRequest(Message):
    """A timestamp per partition; numbers below zero are special. Kafka: ListOffsetsRequest.json."""

    replica_id: Int32
    isolation_level: Int8 = field(versions="2+")
    topics: Array[ListOffsetsTopic]
    timeout_ms: Int32 = field(versions="10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse(Message):
    """One of `partitions` in `ListOffsetsTopicResponse`."""

    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = field(default=-1, versions="1+")
    offset: Int64 = field(default=-1, versions="1+")
    leader_epoch: Int32 = field(default=-1, versions="4+")


@struct
class ListOffsetsTopicResponse(Message):
    """One of `topics` in `ListOffsetsResponse`."""

    name: String
    partitions: Array[ListOffsetsPartitionResponse]


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """The first offset at or after each timestamp. Kafka: ListOffsetsResponse.json."""

    throttle_time_ms: Int32 = field(versions="2+", ignorable=True)
    topics: Array[ListOffsetsTopicResponse]
