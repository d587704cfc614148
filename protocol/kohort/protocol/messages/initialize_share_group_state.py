"""InitializeShareGroupState (83): initialize the state of share partitions (KIP-932)."""

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
class InitializeShareGroupStatePartition(Message):
    """`partitions` in `InitializeShareGroupStateTopic`."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializeShareGroupStateTopic(Message):
    """`topics` in `InitializeShareGroupStateRequest`."""

    topic_id: Uuid
    partitions: Array[InitializeShareGroupStatePartition]


@message(api_key=83, versions="0", flexible="0+", max_items=MAX_PARTITIONS)
class InitializeShareGroupStateRequest(Message):
    """Share partitions with their start offsets; -1 lets the leader choose.

    Kafka: InitializeShareGroupStateRequest.json.
    """

    group_id: String
    topics: Array[InitializeShareGroupStateTopic]


@struct
class InitializeShareGroupStatePartitionResult(Message):
    """`partitions` in `InitializeShareGroupStateTopicResult`."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)


@struct
class InitializeShareGroupStateTopicResult(Message):
    """`results` in `InitializeShareGroupStateResponse`."""

    topic_id: Uuid
    partitions: Array[InitializeShareGroupStatePartitionResult]


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """The result of each partition. Kafka: InitializeShareGroupStateResponse.json."""

    results: Array[InitializeShareGroupStateTopicResult]
