"""StreamsGroupHeartbeat (88): join a streams group, stay in it, or leave it (KIP-1071)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
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


@struct
class StreamsGroupHeartbeatKeyValue(Message):
    """`topic_configs` in `StreamsGroupHeartbeatTopicInfo`, `client_tags` in the request."""

    key: String
    value: String


@struct
class StreamsGroupHeartbeatTopicInfo(Message):
    """An internal topic of the application. With 0 partitions the broker chooses their number."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[StreamsGroupHeartbeatKeyValue]


@struct
class StreamsGroupHeartbeatCopartitionGroup(Message):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


@struct
class StreamsGroupHeartbeatSubtopology(Message):
    """`subtopologies` in `StreamsGroupHeartbeatTopology`."""

    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[StreamsGroupHeartbeatTopicInfo]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[StreamsGroupHeartbeatTopicInfo]
    copartition_groups: Array[StreamsGroupHeartbeatCopartitionGroup]


@struct
class StreamsGroupHeartbeatTopology(Message):
    """`topology` in `StreamsGroupHeartbeatRequest`."""

    epoch: Int32
    subtopologies: Array[StreamsGroupHeartbeatSubtopology]


@struct
class StreamsGroupHeartbeatTaskIds(Message):
    """Tasks of one subtopology: one for each partition of its source topics."""

    subtopology_id: String
    partitions: Array[Int32]


@struct
class StreamsGroupHeartbeatEndpoint(Message):
    """A member's address for interactive queries."""

    host: String
    port: UInt16


@struct
class StreamsGroupHeartbeatTaskOffset(Message):
    """The sum of a task's changelog offsets."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    """A member's state. Fields that have not changed since the last heartbeat are null.

    `member_epoch` is 0 to join, -1 to leave, and -2 for a static member that will be back.

    Kafka: StreamsGroupHeartbeatRequest.json.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: NullableString = field(default=None)
    rack_id: NullableString = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology: StreamsGroupHeartbeatTopology | None = field(default=None)
    active_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    standby_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    warmup_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    process_id: NullableString = field(default=None)
    user_endpoint: StreamsGroupHeartbeatEndpoint | None = field(default=None)
    client_tags: NullableArray[StreamsGroupHeartbeatKeyValue] = field(default=None)
    task_offsets: NullableArray[StreamsGroupHeartbeatTaskOffset] = field(default=None)
    task_end_offsets: NullableArray[StreamsGroupHeartbeatTaskOffset] = field(default=None)
    shutdown_application: Bool = field(default=False)


@struct
class StreamsGroupHeartbeatStatus(Message):
    """`status` in `StreamsGroupHeartbeatResponse`: why the group is not running."""

    status_code: Int8
    status_detail: String


@struct
class StreamsGroupHeartbeatTopicPartition(Message):
    """Partitions of one topic in `StreamsGroupHeartbeatEndpointToPartitions`."""

    topic: String
    partitions: Array[Int32]


@struct
class StreamsGroupHeartbeatEndpointToPartitions(Message):
    """`partitions_by_user_endpoint` in `StreamsGroupHeartbeatResponse`."""

    user_endpoint: StreamsGroupHeartbeatEndpoint
    active_partitions: Array[StreamsGroupHeartbeatTopicPartition]
    standby_partitions: Array[StreamsGroupHeartbeatTopicPartition]


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    """The member's epoch, its tasks if they have changed, and the group's status.

    Kafka: StreamsGroupHeartbeatResponse.json. Version 1 widens the recovery lag (KIP-1331).
    """

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Int32 = field(default=0, versions="0")
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Int64 = field(default=-1, versions="1+", ignorable=True)
    status: NullableArray[StreamsGroupHeartbeatStatus]
    active_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    standby_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    warmup_tasks: NullableArray[StreamsGroupHeartbeatTaskIds] = field(default=None)
    topology_description_required: Bool = field(default=False, versions="1+")
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: NullableArray[StreamsGroupHeartbeatEndpointToPartitions] = field(
        default=None
    )
