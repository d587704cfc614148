"""StreamsGroupDescribe (89): streams groups with their topology and members (KIP-1071)."""

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


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    """Groups to describe. Kafka: StreamsGroupDescribeRequest.json."""

    group_ids: Array[String]
    include_authorized_operations: Bool
    include_topology_description: Bool = field(default=False, versions="1+")


@struct
class StreamsGroupDescribeKeyValue(Message):
    """`topic_configs` in `StreamsGroupDescribeTopicInfo`."""

    key: String
    value: String


@struct
class StreamsGroupDescribeTopicInfo(Message):
    """`state_changelog_topics` in `StreamsGroupDescribeSubtopology`."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[StreamsGroupDescribeKeyValue]


@struct
class StreamsGroupDescribeSubtopology(Message):
    """`subtopologies` in `StreamsGroupDescribeTopology`."""

    subtopology_id: String
    source_topics: Array[String]
    repartition_sink_topics: Array[String]
    state_changelog_topics: Array[StreamsGroupDescribeTopicInfo]
    repartition_source_topics: Array[StreamsGroupDescribeTopicInfo]


@struct
class StreamsGroupDescribeTopology(Message):
    """`topology` in `StreamsGroupDescribeDescribedGroup`."""

    epoch: Int32
    subtopologies: NullableArray[StreamsGroupDescribeSubtopology] = field(default=None)


@struct
class StreamsGroupDescribeEndpoint(Message):
    """`user_endpoint` in `StreamsGroupDescribeMember`."""

    host: String
    port: UInt16


@struct
class StreamsGroupDescribeTaskOffset(Message):
    """`task_offsets` in `StreamsGroupDescribeMember`."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class StreamsGroupDescribeTaskIds(Message):
    """`active_tasks` in `StreamsGroupDescribeAssignment`."""

    subtopology_id: String
    partitions: Array[Int32]


@struct
class StreamsGroupDescribeAssignment(Message):
    """`assignment` in `StreamsGroupDescribeMember`."""

    active_tasks: Array[StreamsGroupDescribeTaskIds]
    standby_tasks: Array[StreamsGroupDescribeTaskIds]
    warmup_tasks: Array[StreamsGroupDescribeTaskIds]


@struct
class StreamsGroupDescribeMember(Message):
    """`members` in `StreamsGroupDescribeDescribedGroup`."""

    member_id: String
    member_epoch: Int32
    instance_id: NullableString = field(default=None)
    rack_id: NullableString = field(default=None)
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsGroupDescribeEndpoint | None = field(default=None)
    client_tags: Array[StreamsGroupDescribeKeyValue]
    task_offsets: Array[StreamsGroupDescribeTaskOffset]
    task_end_offsets: Array[StreamsGroupDescribeTaskOffset]
    assignment: StreamsGroupDescribeAssignment
    target_assignment: StreamsGroupDescribeAssignment
    is_classic: Bool


@struct
class StreamsGroupDescribeTopologyDescriptionNode(Message):
    """`nodes` in `StreamsGroupDescribeTopologyDescriptionSubtopology`."""

    name: String = field(versions="1+")
    node_type: Int8 = field(versions="1+")
    source_topics: Array[String] = field(versions="1+")
    sink_topic: NullableString = field(default=None, versions="1+")
    stores: Array[String] = field(versions="1+")
    successors: Array[String] = field(versions="1+")


@struct
class StreamsGroupDescribeTopologyDescriptionSubtopology(Message):
    """`subtopologies` in `StreamsGroupDescribeTopologyDescription`."""

    subtopology_id: String = field(versions="1+")
    nodes: Array[StreamsGroupDescribeTopologyDescriptionNode] = field(versions="1+")


@struct
class StreamsGroupDescribeTopologyDescriptionGlobalStore(Message):
    """`global_stores` in `StreamsGroupDescribeTopologyDescription`."""

    source: StreamsGroupDescribeTopologyDescriptionNode = field(versions="1+")
    processor: StreamsGroupDescribeTopologyDescriptionNode = field(versions="1+")


@struct
class StreamsGroupDescribeTopologyDescription(Message):
    """`topology_description` in `StreamsGroupDescribeDescribedGroup`."""

    subtopologies: Array[StreamsGroupDescribeTopologyDescriptionSubtopology] = field(versions="1+")
    global_stores: Array[StreamsGroupDescribeTopologyDescriptionGlobalStore] = field(versions="1+")


@struct
class StreamsGroupDescribeDescribedGroup(Message):
    """`groups` in `StreamsGroupDescribeResponse`."""

    error_code: Int16
    error_message: NullableString = field(default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: StreamsGroupDescribeTopology | None = field(default=None)
    members: Array[StreamsGroupDescribeMember]
    authorized_operations: Int32 = field(default=-2147483648)
    topology_description: StreamsGroupDescribeTopologyDescription | None = field(default=None, versions="1+")
    topology_description_status: Int8 = field(default=0, versions="1+")
    assignor_name: NullableString = field(default=None, versions="1+", ignorable=True)


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    """The state, topology and members of each group. Kafka: StreamsGroupDescribeResponse.json."""

    throttle_time_ms: Int32
    groups: Array[StreamsGroupDescribeDescribedGroup]
