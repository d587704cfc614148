"""DescribeProducers (61): the active producers of partitions."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Int64, Message, NullableString, String, field


@struct
class DescribeProducersRequestTopicRequest(Message):
    """One of `topics` in `DescribeProducersRequest`."""

    name: String
    partition_indexes: Array[Int32]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    """Partitions to describe. Kafka: DescribeProducersRequest.json."""

    topics: Array[DescribeProducersRequestTopicRequest]


@struct
class ProducerState(Message):
    """One of `active_producers` in `PartitionResponse`."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(default=-1)


@struct
class PartitionResponse(Message):
    """One of `partitions` in `TopicResponse`."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    active_producers: Array[ProducerState]


@struct
class TopicResponse(Message):
    """One of `topics` in `DescribeProducersResponse`."""

    name: String
    partitions: Array[PartitionResponse]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """The active producers of each partition. Kafka: DescribeProducersResponse.json."""

    throttle_time_ms: Int32
    topics: Array[TopicResponse]
