"""CreateTopics (19): create topics, or only validate the request."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_NAMED
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
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
class CreatableReplicaAssignment(Message):
    """One of `assignments` in `CreatableTopic`."""

    partition_index: Int32
    broker_ids: Array[Int32]


@struct
class CreatableTopicConfig(Message):
    """One of `configs` in `CreatableTopic`."""

    name: String
    value: NullableString


@struct
class CreatableTopic(Message):
    """One of `topics` in `CreateTopicsRequest`."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment]
    configs: Array[CreatableTopicConfig]


@message(api_key=19, versions="2-7", flexible="5+", max_items=MAX_NAMED)
class CreateTopicsRequest(Message):
    """Topics to create with partitions, replicas and configuration. Kafka: CreateTopicsRequest.json."""

    topics: Array[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field(default=False, versions="1+")


@struct
class CreatableTopicConfigs(Message):
    """One of `configs` in `CreatableTopicResult`."""

    name: String = field(versions="5+")
    value: NullableString = field(versions="5+")
    read_only: Bool = field(versions="5+")
    config_source: Int8 = field(default=-1, versions="5+", ignorable=True)
    is_sensitive: Bool = field(versions="5+")


@struct
class CreatableTopicResult(Message):
    """One of `topics` in `CreateTopicsResponse`."""

    name: String
    topic_id: Uuid = field(versions="7+", ignorable=True)
    error_code: Int16
    error_message: NullableString = field(versions="1+", ignorable=True)
    topic_config_error_code: Int16 = field(versions="5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: Int32 = field(default=-1, versions="5+", ignorable=True)
    replication_factor: Int16 = field(default=-1, versions="5+", ignorable=True)
    configs: NullableArray[CreatableTopicConfigs] = field(versions="5+", ignorable=True)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """The result of each topic. Kafka: CreateTopicsResponse.json."""

    throttle_time_ms: Int32 = field(versions="2+", ignorable=True)
    topics: Array[CreatableTopicResult]
