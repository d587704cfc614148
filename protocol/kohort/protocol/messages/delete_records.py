"""DeleteRecords (21): move log start offsets forward."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int16, Int32, Int64, Message, String


@struct
class DeleteRecordsPartition(Message):
    """One of `partitions` in `DeleteRecordsTopic`."""

    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic(Message):
    """One of `topics` in `DeleteRecordsRequest`."""

    name: String
    partitions: Array[DeleteRecordsPartition]


@message(api_key=21, versions="0-2", flexible="2+", max_items=MAX_PARTITIONS)
class DeleteRecordsRequest(Message):
    """The offset of each partition before which records are deleted. Kafka: DeleteRecordsRequest.json."""

    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult(Message):
    """One of `partitions` in `DeleteRecordsTopicResult`."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


@struct
class DeleteRecordsTopicResult(Message):
    """One of `topics` in `DeleteRecordsResponse`."""

    name: String
    partitions: Array[DeleteRecordsPartitionResult]


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The new log start offsets. Kafka: DeleteRecordsResponse.json."""

    throttle_time_ms: Int32
    topics: Array[DeleteRecordsTopicResult]
