"""DescribeTopicPartitions (75): partitions page by page."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)


@struct
class DescribeTopicPartitionsRequestTopicRequest(Message):
    """One of `topics` in `DescribeTopicPartitionsRequest`."""

    name: String


@struct
class DescribeTopicPartitionsRequestCursor(Message):
    """The `cursor` of `DescribeTopicPartitionsRequest`."""

    topic_name: String
    partition_index: Int32


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    """Topics, the cursor of this page, and its number of partitions.

    Kafka: DescribeTopicPartitionsRequest.json.
    """

    topics: Array[DescribeTopicPartitionsRequestTopicRequest]
    response_partition_limit: Int32 = field(default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = field(default=None)


@struct
class DescribeTopicPartitionsResponsePartition(Message):
    """One of `partitions` in `DescribeTopicPartitionsResponseTopic`."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    eligible_leader_replicas: NullableArray[Int32] = field(default=None)
    last_known_elr: NullableArray[Int32] = field(default=None)
    offline_replicas: Array[Int32]


@struct
class DescribeTopicPartitionsResponseTopic(Message):
    """One of `topics` in `DescribeTopicPartitionsResponse`."""

    error_code: Int16
    name: NullableString
    topic_id: Uuid
    is_internal: Bool = field(default=False)
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = field(default=-2147483648)


@struct
class DescribeTopicPartitionsResponseCursor(Message):
    """The `next_cursor` of `DescribeTopicPartitionsResponse`."""

    topic_name: String
    partition_index: Int32


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    """The partitions, and a cursor if there are more. Kafka: DescribeTopicPartitionsResponse.json."""

    throttle_time_ms: Int32
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(default=None)
