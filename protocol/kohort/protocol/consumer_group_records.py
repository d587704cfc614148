"""The records of consumer groups (KIP-848) in `__consumer_offsets`, keys 3 to 8 and 16.

A module of its own, because only a broker with such a group imports it. Kafka's coordinator before 4.1 also
wrote the metadata of a group's topics (key 4): kohort reads these records, but never writes them.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)


@message(api_key=3, versions="0", flexible="none")
class ConsumerGroupMetadataKey(Message):
    """The key of a group's epoch. Kafka: ConsumerGroupMetadataKey.json."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """A group's epoch, and the hash of its topics' metadata at that epoch (KIP-1101).

    Kafka: ConsumerGroupMetadataValue.json.
    """

    epoch: Int32
    metadata_hash: Int64 = field(default=0, tag=0, tagged="0+")


@message(api_key=4, versions="0", flexible="none")
class ConsumerGroupPartitionMetadataKey(Message):
    """The key of the metadata of a group's topics. Kafka: ConsumerGroupPartitionMetadataKey.json."""

    group_id: String


@struct
class SubscribedPartition(Message):
    """A partition and the racks of its replicas."""

    partition: Int32
    racks: Array[String]


@struct
class SubscribedTopic(Message):
    """A subscribed topic, as of this record."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[SubscribedPartition]


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The metadata of a group's topics. Kafka: ConsumerGroupPartitionMetadataValue.json."""

    topics: Array[SubscribedTopic]


@message(api_key=5, versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey(Message):
    """The key of a member. Kafka: ConsumerGroupMemberMetadataKey.json."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol(Message):
    """A protocol of a member that uses the classic protocol."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata(Message):
    """Additional state of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """A member's identity and subscription. Kafka: ConsumerGroupMemberMetadataValue.json.

    `classic_member_metadata` has no default: Kafka's default is an empty struct, which is not None.
    """

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: NullableString
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, tagged="0+")


@message(api_key=6, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The key of the target assignment's epoch. Kafka: ConsumerGroupTargetAssignmentMetadataKey.json."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch of the target assignment, and when it was computed.

    Kafka: ConsumerGroupTargetAssignmentMetadataValue.json.
    """

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, tagged="0+", ignorable=True)


@message(api_key=7, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """The key of a member's target assignment. Kafka: ConsumerGroupTargetAssignmentMemberKey.json."""

    group_id: String
    member_id: String


@struct
class TargetPartitions(Message):
    """Partitions of one topic in a target assignment."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """A member's target assignment. Kafka: ConsumerGroupTargetAssignmentMemberValue.json."""

    topic_partitions: Array[TargetPartitions]


@message(api_key=8, versions="0", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """The key of a member's current assignment. Kafka: ConsumerGroupCurrentMemberAssignmentKey.json."""

    group_id: String
    member_id: String


@struct
class CurrentPartitions(Message):
    """Partitions of one topic that a member owns, and the epoch of each one's assignment (KIP-1251)."""

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: NullableArray[Int32] = field(default=(), tag=0, tagged="0+")


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """A member's epoch and current assignment. Kafka: ConsumerGroupCurrentMemberAssignmentValue.json."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[CurrentPartitions]
    partitions_pending_revocation: Array[CurrentPartitions]


@message(api_key=16, versions="0", flexible="none")
class ConsumerGroupRegularExpressionKey(Message):
    """The key of a regular expression. Kafka: ConsumerGroupRegularExpressionKey.json."""

    group_id: String
    regular_expression: String


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that match an expression. Kafka: ConsumerGroupRegularExpressionValue.json."""

    topics: Array[String]
    version: Int64
    timestamp: Int64


RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""The classes of key and value by record type."""
