"""OffsetDelete (47): delete committed offsets of unsubscribed topics."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int16, Int32, Message, String


@struct
class OffsetDeleteRequestPartition(Message):
    """One of `partitions` in `OffsetDeleteRequestTopic`."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic(Message):
    """One of `topics` in `OffsetDeleteRequest`."""

    name: String
    partitions: Array[OffsetDeleteRequestPartition]


@message(api_key=47, versions="0", flexible="none", max_items=MAX_PARTITIONS)
class OffsetDeleteRequest(Message):
    """The partitions whose offsets are deleted. Kafka: OffsetDeleteRequest.json."""

    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition(Message):
    """One of `partitions` in `OffsetDeleteResponseTopic`."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetDeleteResponseTopic(Message):
    """One of `topics` in `OffsetDeleteResponse`."""

    name: String
    partitions: Array[OffsetDeleteResponsePartition]


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Message):
    """The result of each partition. Kafka: OffsetDeleteResponse.json."""

    error_code: Int16
    throttle_time_ms: Int32
    topics: Array[OffsetDeleteResponseTopic]
