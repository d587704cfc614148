"""The records of share groups (KIP-932) in `__consumer_offsets`, keys 10 to 15.

A module of its own, because only a broker with such a group imports it.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int8,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Uuid,
    field,
)


@message(api_key=10, versions="0", flexible="none")
class ShareGroupMemberMetadataKey(Message):
    """The key of a member. Kafka: ShareGroupMemberMetadataKey.json."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """A member's identity and subscription. Kafka: ShareGroupMemberMetadataValue.json."""

    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


@message(api_key=11, versions="0", flexible="none")
class ShareGroupMetadataKey(Message):
    """The key of a group's epoch. Kafka: ShareGroupMetadataKey.json."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """A group's epoch, and the hash of its topics' metadata at that epoch.

    Kafka: ShareGroupMetadataValue.json.
    """

    epoch: Int32
    metadata_hash: Int64


@message(api_key=12, versions="0", flexible="none")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The key of the target assignment's epoch. Kafka: ShareGroupTargetAssignmentMetadataKey.json."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch of the target assignment, and when it was computed.

    Kafka: ShareGroupTargetAssignmentMetadataValue.json.
    """

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, tagged="0+", ignorable=True)


@message(api_key=13, versions="0", flexible="none")
class ShareGroupTargetAssignmentMemberKey(Message):
    """The key of a member's target assignment. Kafka: ShareGroupTargetAssignmentMemberKey.json."""

    group_id: String
    member_id: String


@struct
class ShareGroupTargetPartitions(Message):
    """Partitions of one topic in a target assignment."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    """A member's target assignment. Kafka: ShareGroupTargetAssignmentMemberValue.json."""

    topic_partitions: Array[ShareGroupTargetPartitions]


@message(api_key=14, versions="0", flexible="none")
class ShareGroupCurrentMemberAssignmentKey(Message):
    """The key of a member's current assignment. Kafka: ShareGroupCurrentMemberAssignmentKey.json."""

    group_id: String
    member_id: String


@struct
class ShareGroupCurrentPartitions(Message):
    """Partitions of one topic that a member owns."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    """A member's epoch and current assignment. Kafka: ShareGroupCurrentMemberAssignmentValue.json."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[ShareGroupCurrentPartitions]


@message(api_key=15, versions="0", flexible="none")
class ShareGroupStatePartitionMetadataKey(Message):
    """The key of a group's share partitions. Kafka: ShareGroupStatePartitionMetadataKey.json."""

    group_id: String


@struct
class ShareGroupStatePartitions(Message):
    """Share partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@struct
class ShareGroupStateTopic(Message):
    """A topic whose share partitions are being deleted."""

    topic_id: Uuid
    topic_name: String


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """The share partitions that are being initialized, initialized, and being deleted.

    Kafka: ShareGroupStatePartitionMetadataValue.json.
    """

    initializing_topics: Array[ShareGroupStatePartitions]
    initialized_topics: Array[ShareGroupStatePartitions]
    deleting_topics: Array[ShareGroupStateTopic]


RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}
"""The classes of key and value by record type."""
