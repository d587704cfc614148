"""ShareGroupHeartbeat (76): join a share group, stay in it, or leave it (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    """A member's state. Fields that have not changed since the last heartbeat are null.

    `member_epoch` is 0 to join, -1 to leave.

    Kafka: ShareGroupHeartbeatRequest.json.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = field(default=None)
    subscribed_topic_names: NullableArray[String] = field(default=None)


@struct
class ShareGroupHeartbeatTopicPartitions(Message):
    """`topic_partitions` in `ShareGroupHeartbeatAssignment`."""

    topic_id: Uuid
    partitions: Array[Int32]


@struct
class ShareGroupHeartbeatAssignment(Message):
    """`assignment` in `ShareGroupHeartbeatResponse`."""

    topic_partitions: Array[ShareGroupHeartbeatTopicPartitions]


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if it has changed. Kafka: ShareGroupHeartbeatResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    member_id: NullableString = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: ShareGroupHeartbeatAssignment | None = field(default=None)
