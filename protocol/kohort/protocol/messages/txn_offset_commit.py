"""TxnOffsetCommit (28): commit offsets in a transaction."""

from kohort.protocol.declaring import message, struct
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
class TxnOffsetCommitRequestPartition(Message):
    """An offset in `TxnOffsetCommitRequest`."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, versions="2+", ignorable=True)
    committed_metadata: NullableString


@struct
class TxnOffsetCommitRequestTopic(Message):
    """A topic's offsets in `TxnOffsetCommitRequest`."""

    name: String = field(versions="0-5", ignorable=True)
    topic_id: Uuid = field(versions="6+", ignorable=True)
    partitions: Array[TxnOffsetCommitRequestPartition]


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    """A producer's offsets of a group, and the member that read the records (KIP-447).

    Kafka: TxnOffsetCommitRequest.json.
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = field(default=-1, versions="3+")
    member_id: String = field(default="", versions="3+")
    group_instance_id: NullableString = field(default=None, versions="3+")
    topics: Array[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition(Message):
    """The result of an offset in `TxnOffsetCommitResponse`."""

    partition_index: Int32
    error_code: Int16


@struct
class TxnOffsetCommitResponseTopic(Message):
    """The result of a topic's offsets in `TxnOffsetCommitResponse`."""

    name: String = field(versions="0-5", ignorable=True)
    topic_id: Uuid = field(versions="6+", ignorable=True)
    partitions: Array[TxnOffsetCommitResponsePartition]


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    """The result of each offset. Kafka: TxnOffsetCommitResponse.json."""

    throttle_time_ms: Int32
    topics: Array[TxnOffsetCommitResponseTopic]
