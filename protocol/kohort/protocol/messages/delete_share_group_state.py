"""DeleteShareGroupState (86): delete the state of share partitions (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int16, Int32, Message, NullableString, String, Uuid, field


@struct
class DeleteShareGroupStatePartition(Message):
    """`partitions` in `DeleteShareGroupStateTopic`."""

    partition: Int32


@struct
class DeleteShareGroupStateTopic(Message):
    """`topics` in `DeleteShareGroupStateRequest`."""

    topic_id: Uuid
    partitions: Array[DeleteShareGroupStatePartition]


@message(api_key=86, versions="0", flexible="0+", max_items=MAX_PARTITIONS)
class DeleteShareGroupStateRequest(Message):
    """Share partitions whose state is deleted. Kafka: DeleteShareGroupStateRequest.json."""

    group_id: String
    topics: Array[DeleteShareGroupStateTopic]


@struct
class DeleteShareGroupStatePartitionResult(Message):
    """`partitions` in `DeleteShareGroupStateTopicResult`."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)


@struct
class DeleteShareGroupStateTopicResult(Message):
    """`results` in `DeleteShareGroupStateResponse`."""

    topic_id: Uuid
    partitions: Array[DeleteShareGroupStatePartitionResult]


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """The result of each partition. Kafka: DeleteShareGroupStateResponse.json."""

    results: Array[DeleteShareGroupStateTopicResult]
