"""Metadata (3): brokers, topics, partitions and their leaders."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_NAMED
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
class MetadataRequestTopic(Message):
    """One of `topics` in `MetadataRequest`."""

    topic_id: Uuid = field(versions="10+", ignorable=True)
    name: NullableString = field(nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+", max_items=MAX_NAMED)
class MetadataRequest(Message):
    """Topics: null for all, none for only the brokers. Kafka: MetadataRequest.json."""

    topics: NullableArray[MetadataRequestTopic] = field(nullable="1+")
    allow_auto_topic_creation: Bool = field(default=True, versions="4+")
    include_cluster_authorized_operations: Bool = field(versions="8-10")
    include_topic_authorized_operations: Bool = field(versions="8+")


@struct
class MetadataResponseBroker(Message):
    """One of `brokers` in `MetadataResponse`."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = field(default=None, versions="1+", ignorable=True)


@struct
class MetadataResponsePartition(Message):
    """One of `partitions` in `MetadataResponseTopic`."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1, versions="7+", ignorable=True)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Array[Int32] = field(versions="5+", ignorable=True)


@struct
class MetadataResponseTopic(Message):
    """One of `topics` in `MetadataResponse`."""

    error_code: Int16
    name: NullableString = field(nullable="12+")
    topic_id: Uuid = field(versions="10+", ignorable=True)
    is_internal: Bool = field(default=False, versions="1+", ignorable=True)
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field(default=-2147483648, versions="8+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    """The brokers, the topics and their partitions. Kafka: MetadataResponse.json."""

    throttle_time_ms: Int32 = field(versions="3+", ignorable=True)
    brokers: Array[MetadataResponseBroker]
    cluster_id: NullableString = field(default=None, versions="2+", ignorable=True)
    controller_id: Int32 = field(default=-1, versions="1+", ignorable=True)
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(default=-2147483648, versions="8-10")
    error_code: Int16 = field(versions="13+", ignorable=True)
