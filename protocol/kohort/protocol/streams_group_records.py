"""The records of streams groups (KIP-1071) in `__consumer_offsets`, keys 17 and 19 to 23.

A module of its own, because only a broker with such a group imports it.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    String,
    UInt16,
    field,
)


@message(api_key=17, versions="0", flexible="none")
class StreamsGroupMetadataKey(Message):
    """The key of a group's epoch. Kafka: StreamsGroupMetadataKey.json."""

    group_id: String


@struct
class StreamsGroupAssignmentConfig(Message):
    """A setting of the last assignment."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """A group's epoch, and the topics' hash, the topology and the settings at that epoch.

    The epochs of topology descriptions are KIP-1331's. kohort does not set them, but keeps those of Kafka
    4.4.

    Kafka: StreamsGroupMetadataValue.json.
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field(default=-1, tag=0, tagged="0+")
    last_assignment_configs: NullableArray[StreamsGroupAssignmentConfig] = field(
        default=(), tag=1, tagged="0+"
    )
    stored_description_topology_epoch: Int32 = field(default=-1, tag=2, tagged="0+")
    failed_description_topology_epoch: Int32 = field(default=-1, tag=3, tagged="0+")


@message(api_key=19, versions="0", flexible="none")
class StreamsGroupMemberMetadataKey(Message):
    """The key of a member. Kafka: StreamsGroupMemberMetadataKey.json."""

    group_id: String
    member_id: String


@struct
class StreamsGroupEndpoint(Message):
    """A member's address for interactive queries."""

    host: String
    port: UInt16


@struct
class StreamsGroupClientTag(Message):
    """One of a member's tags."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """A member's identity. Kafka: StreamsGroupMemberMetadataValue.json."""

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsGroupEndpoint | None = field(default=None)
    client_tags: Array[StreamsGroupClientTag]


@message(api_key=20, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """The key of the target assignment's epoch. Kafka: StreamsGroupTargetAssignmentMetadataKey.json."""

    group_id: String


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The group epoch of the target assignment, and when it was computed.

    Kafka: StreamsGroupTargetAssignmentMetadataValue.json.
    """

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, tagged="0+", ignorable=True)


@message(api_key=21, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """The key of a member's target assignment. Kafka: StreamsGroupTargetAssignmentMemberKey.json."""

    group_id: String
    member_id: String


@struct
class StreamsGroupTargetTaskIds(Message):
    """Tasks of one subtopology in a target assignment."""

    subtopology_id: String
    partitions: Array[Int32]


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """A member's target assignment. Kafka: StreamsGroupTargetAssignmentMemberValue.json."""

    active_tasks: Array[StreamsGroupTargetTaskIds]
    standby_tasks: Array[StreamsGroupTargetTaskIds]
    warmup_tasks: Array[StreamsGroupTargetTaskIds]


@message(api_key=22, versions="0", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """The key of a member's current assignment. Kafka: StreamsGroupCurrentMemberAssignmentKey.json."""

    group_id: String
    member_id: String


@struct
class StreamsGroupCurrentTaskIds(Message):
    """Tasks of one subtopology that a member owns; for active tasks, their assignment epochs (KIP-1251)."""

    subtopology_id: String
    partitions: Array[Int32]
    assignment_epochs: NullableArray[Int32] = field(default=(), tag=0, tagged="0+")


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """A member's epoch, its current tasks, and the tasks that it must revoke.

    Kafka: StreamsGroupCurrentMemberAssignmentValue.json.
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Array[StreamsGroupCurrentTaskIds]
    standby_tasks: Array[StreamsGroupCurrentTaskIds]
    warmup_tasks: Array[StreamsGroupCurrentTaskIds]
    active_tasks_pending_revocation: Array[StreamsGroupCurrentTaskIds]
    standby_tasks_pending_revocation: Array[StreamsGroupCurrentTaskIds]
    warmup_tasks_pending_revocation: Array[StreamsGroupCurrentTaskIds]


@message(api_key=23, versions="0", flexible="none")
class StreamsGroupTopologyKey(Message):
    """The key of a group's topology. Kafka: StreamsGroupTopologyKey.json."""

    group_id: String


@struct
class StreamsGroupTopicConfig(Message):
    """A setting of an internal topic of the application."""

    key: String
    value: String


@struct
class StreamsGroupTopicInfo(Message):
    """An internal topic of the application. With 0 partitions the broker chooses their number."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[StreamsGroupTopicConfig]


@struct
class StreamsGroupCopartitionGroup(Message):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


@struct
class StreamsGroupSubtopology(Message):
    """A part of the application's topology, with its own tasks."""

    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[StreamsGroupTopicInfo]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[StreamsGroupTopicInfo]
    copartition_groups: Array[StreamsGroupCopartitionGroup]


@message(versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """The application's topology. Kafka: StreamsGroupTopologyValue.json."""

    epoch: Int32
    subtopologies: Array[StreamsGroupSubtopology]


RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}
"""The classes of key and value by record type."""
