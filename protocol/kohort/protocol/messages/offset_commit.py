"""OffsetCommit (8): commit offsets of a group."""

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
class OffsetCommitRequestPartition(Message):
    """One of `partitions` in `OffsetCommitRequestTopic`."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, versions="6+", ignorable=True)
    committed_metadata: NullableString


@struct
class OffsetCommitRequestTopic(Message):
    """One of `topics` in `OffsetCommitRequest`."""

    name: String = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: Array[OffsetCommitRequestPartition]


@message(api_key=8, versions="2-10", flexible="8+", max_items=MAX_PARTITIONS)
class OffsetCommitRequest(Message):
    """The offsets of one group, with or without a member. Kafka: OffsetCommitRequest.json."""

    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1, versions="1+", ignorable=True)
    member_id: String = field(versions="1+", ignorable=True)
    group_instance_id: NullableString = field(default=None, versions="7+")
    retention_time_ms: Int64 = field(default=-1, versions="2-4", ignorable=True)
    topics: Array[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition(Message):
    """One of `partitions` in `OffsetCommitResponseTopic`."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetCommitResponseTopic(Message):
    """One of `topics` in `OffsetCommitResponse`."""

    name: String = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: Array[OffsetCommitResponsePartition]


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    """The error code of each offset. Kafka: OffsetCommitResponse.json."""

    throttle_time_ms: Int32 = field(versions="3+", ignorable=True)
    topics: Array[OffsetCommitResponseTopic]
