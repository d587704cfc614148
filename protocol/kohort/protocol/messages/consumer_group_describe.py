"""ConsumerGroupDescribe (69): consumer groups with their members (KIP-848)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Uuid,
    field,
)


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    """Groups to describe. Kafka: ConsumerGroupDescribeRequest.json."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@struct
class ConsumerGroupDescribeTopicPartitions(Message):
    """`topic_partitions` in `ConsumerGroupDescribeAssignment`."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@struct
class ConsumerGroupDescribeAssignment(Message):
    """`assignment` in `ConsumerGroupDescribeMember`."""

    topic_partitions: Array[ConsumerGroupDescribeTopicPartitions]


@struct
class ConsumerGroupDescribeMember(Message):
    """`members` in `ConsumerGroupDescribeDescribedGroup`."""

    member_id: String
    instance_id: NullableString = field(default=None)
    rack_id: NullableString = field(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString = field(default=None)
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: Int8 = field(default=-1, versions="1+", ignorable=True)


@struct
class ConsumerGroupDescribeDescribedGroup(Message):
    """`groups` in `ConsumerGroupDescribeResponse`."""

    error_code: Int16
    error_message: NullableString = field(default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[ConsumerGroupDescribeMember]
    authorized_operations: Int32 = field(default=-2147483648)


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    """The state, epochs and members of each group. Kafka: ConsumerGroupDescribeResponse.json."""

    throttle_time_ms: Int32
    groups: Array[ConsumerGroupDescribeDescribedGroup]
