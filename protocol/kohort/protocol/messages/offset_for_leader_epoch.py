"""OffsetForLeaderEpoch (23): find the end offsets of leader epochs."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int16, Int32, Int64, Message, String, field


@struct
class OffsetForLeaderPartition(Message):
    """One of `partitions` in `OffsetForLeaderTopic`."""

    partition: Int32
    current_leader_epoch: Int32 = field(default=-1, versions="2+", ignorable=True)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic(Message):
    """One of `topics` in `OffsetForLeaderEpochRequest`."""

    topic: String
    partitions: Array[OffsetForLeaderPartition]


@message(api_key=23, versions="2-4", flexible="4+", max_items=MAX_PARTITIONS)
class OffsetForLeaderEpochRequest(Message):
    """The leader epochs. Kafka: OffsetForLeaderEpochRequest.json."""

    replica_id: Int32 = field(default=-2, versions="3+", ignorable=True)
    topics: Array[OffsetForLeaderTopic]


@struct
class OffsetForLeaderEpochResponseEpochEndOffset(Message):
    """One of `partitions` in `OffsetForLeaderTopicResult`."""

    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = field(default=-1, versions="1+", ignorable=True)
    end_offset: Int64 = field(default=-1)


@struct
class OffsetForLeaderTopicResult(Message):
    """One of `topics` in `OffsetForLeaderEpochResponse`."""

    topic: String
    partitions: Array[OffsetForLeaderEpochResponseEpochEndOffset]


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """The end offset of each epoch. Kafka: OffsetForLeaderEpochResponse.json."""

    throttle_time_ms: Int32 = field(versions="2+", ignorable=True)
    topics: Array[OffsetForLeaderTopicResult]
