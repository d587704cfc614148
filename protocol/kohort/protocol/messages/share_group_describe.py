"""ShareGroupDescribe (77): share groups with their members (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Uuid,
    field,
)


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    """Groups to describe. Kafka: ShareGroupDescribeRequest.json."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@struct
class ShareGroupDescribeTopicPartitions(Message):
    """`topic_partitions` in `ShareGroupDescribeAssignment`."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@struct
class ShareGroupDescribeAssignment(Message):
    """`assignment` in `ShareGroupDescribeMember`."""

    topic_partitions: Array[ShareGroupDescribeTopicPartitions]


@struct
class ShareGroupDescribeMember(Message):
    """`members` in `ShareGroupDescribeDescribedGroup`."""

    member_id: String
    rack_id: NullableString = field(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    assignment: ShareGroupDescribeAssignment


@struct
class ShareGroupDescribeDescribedGroup(Message):
    """`groups` in `ShareGroupDescribeResponse`."""

    error_code: Int16
    error_message: NullableString = field(default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[ShareGroupDescribeMember]
    authorized_operations: Int32 = field(default=-2147483648)


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    """The state, epochs and members of each group. Kafka: ShareGroupDescribeResponse.json."""

    throttle_time_ms: Int32
    groups: Array[ShareGroupDescribeDescribedGroup]
