"""ReadShareGroupState (84): read the state of share partitions (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Int8,
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
class ReadShareGroupStatePartition(Message):
    """`partitions` in `ReadShareGroupStateTopic`."""

    partition: Int32
    leader_epoch: Int32


@struct
class ReadShareGroupStateTopic(Message):
    """`topics` in `ReadShareGroupStateRequest`."""

    topic_id: Uuid
    partitions: Array[ReadShareGroupStatePartition]


@message(api_key=84, versions="0", flexible="0+", max_items=MAX_PARTITIONS)
class ReadShareGroupStateRequest(Message):
    """Share partitions of a new leader, with its leader epoch. Kafka: ReadShareGroupStateRequest.json."""

    group_id: String
    topics: Array[ReadShareGroupStateTopic]


@struct
class ReadShareGroupStateBatch(Message):
    """`state_batches` in `ReadShareGroupStatePartitionResult`."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@struct
class ReadShareGroupStatePartitionResult(Message):
    """`partitions` in `ReadShareGroupStateTopicResult`."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    state_epoch: Int32
    start_offset: Int64
    state_batches: Array[ReadShareGroupStateBatch]


@struct
class ReadShareGroupStateTopicResult(Message):
    """`results` in `ReadShareGroupStateResponse`."""

    topic_id: Uuid
    partitions: Array[ReadShareGroupStatePartitionResult]


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    """The start offset of each share partition, and the states of later records.

    Kafka: ReadShareGroupStateResponse.json.
    """

    results: Array[ReadShareGroupStateTopicResult]
