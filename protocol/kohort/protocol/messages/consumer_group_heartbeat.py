"""ConsumerGroupHeartbeat (68): join a consumer group, stay in it, or leave it (KIP-848)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
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


@struct
class ConsumerGroupHeartbeatTopicPartitions(Message):
    """Partitions of one topic: owned partitions in a request, assigned partitions in a response."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(api_key=68, versions="0-1", flexible="0+", max_items=MAX_PARTITIONS)
class ConsumerGroupHeartbeatRequest(Message):
    """A member's state. Fields that have not changed since the last heartbeat are null.

    `member_epoch` is 0 to join, -1 to leave, -2 to leave for a while as a static member.
    Kafka: ConsumerGroupHeartbeatRequest.json.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = field(default=None)
    rack_id: NullableString = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: NullableArray[String] = field(default=None)
    subscribed_topic_regex: NullableString = field(default=None, versions="1+")
    server_assignor: NullableString = field(default=None)
    topic_partitions: NullableArray[ConsumerGroupHeartbeatTopicPartitions] = field(default=None)


@struct
class ConsumerGroupHeartbeatAssignment(Message):
    """`assignment` in `ConsumerGroupHeartbeatResponse`: the partitions that the member may read now."""

    topic_partitions: Array[ConsumerGroupHeartbeatTopicPartitions]


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if it has changed.

    Kafka: ConsumerGroupHeartbeatResponse.json.
    """

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    member_id: NullableString = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: ConsumerGroupHeartbeatAssignment | None = field(default=None)
