"""ReadShareGroupStateSummary (87): read the start offsets of share partitions (KIP-932)."""

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
class ReadShareGroupStateSummaryPartition(Message):
    """`partitions` in `ReadShareGroupStateSummaryTopic`."""

    partition: Int32
    leader_epoch: Int32


@struct
class ReadShareGroupStateSummaryTopic(Message):
    """`topics` in `ReadShareGroupStateSummaryRequest`."""

    topic_id: Uuid
    partitions: Array[ReadShareGroupStateSummaryPartition]


@message(api_key=87, versions="0-1", flexible="0+", max_items=MAX_PARTITIONS)
class ReadShareGroupStateSummaryRequest(Message):
    """Share partitions. Kafka: ReadShareGroupStateSummaryRequest.json."""

    group_id: String
    topics: Array[ReadShareGroupStateSummaryTopic]


@struct
class ReadShareGroupStateSummaryPartitionResult(Message):
    """`partitions` in `ReadShareGroupStateSummaryTopicResult`."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, versions="1+", ignorable=True)


@struct
class ReadShareGroupStateSummaryTopicResult(Message):
    """`results` in `ReadShareGroupStateSummaryResponse`."""

    topic_id: Uuid
    partitions: Array[ReadShareGroupStateSummaryPartitionResult]


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    """The start offset of each share partition. Kafka: ReadShareGroupStateSummaryResponse.json."""

    results: Array[ReadShareGroupStateSummaryTopicResult]
