"""WriteShareGroupState (85): write the state of share partitions (KIP-932)."""

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
class WriteShareGroupStateBatch(Message):
    """`state_batches` in `WriteShareGroupStatePartition`."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@struct
class WriteShareGroupStatePartition(Message):
    """`partitions` in `WriteShareGroupStateTopic`."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, versions="1+", ignorable=True)
    state_batches: Array[WriteShareGroupStateBatch]


@struct
class WriteShareGroupStateTopic(Message):
    """`topics` in `WriteShareGroupStateRequest`."""

    topic_id: Uuid
    partitions: Array[WriteShareGroupStatePartition]


@message(api_key=85, versions="0-1", flexible="0+", max_items=MAX_PARTITIONS)
class WriteShareGroupStateRequest(Message):
    """Share partitions with their start offsets, and new states of records.

    Kafka: WriteShareGroupStateRequest.json.
    """

    group_id: String
    topics: Array[WriteShareGroupStateTopic]


@struct
class WriteShareGroupStatePartitionResult(Message):
    """`partitions` in `WriteShareGroupStateTopicResult`."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)


@struct
class WriteShareGroupStateTopicResult(Message):
    """`results` in `WriteShareGroupStateResponse`."""

    topic_id: Uuid
    partitions: Array[WriteShareGroupStatePartitionResult]


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    """The result of each partition. Kafka: WriteShareGroupStateResponse.json."""

    results: Array[WriteShareGroupStateTopicResult]
