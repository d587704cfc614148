"""Produce (0): append record batches to partitions."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    Records,
    String,
    Uuid,
    field,
)


@struct
class PartitionProduceData(Message):
    """One of `partition_data` in `TopicProduceData`."""

    index: Int32
    records: Records


@struct
class TopicProduceData(Message):
    """One of `topic_data` in `ProduceRequest`."""

    name: String = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_data: Array[PartitionProduceData]


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest(Message):
    """Batches to append, and the required acks. Kafka: ProduceRequest.json."""

    transactional_id: NullableString = field(default=None, versions="3+")
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


@struct
class BatchIndexAndErrorMessage(Message):
    """One of `record_errors` in `PartitionProduceResponse`."""

    batch_index: Int32 = field(versions="8+")
    batch_index_error_message: NullableString = field(default=None, versions="8+")


@struct
class ProduceResponseLeaderIdAndEpoch(Message):
    """The `current_leader` of `PartitionProduceResponse`."""

    leader_id: Int32 = field(default=-1, versions="10+")
    leader_epoch: Int32 = field(default=-1, versions="10+")


@struct
class PartitionProduceResponse(Message):
    """One of `partition_responses` in `TopicProduceResponse`."""

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = field(default=-1, versions="2+", ignorable=True)
    log_start_offset: Int64 = field(default=-1, versions="5+", ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = field(versions="8+", ignorable=True)
    error_message: NullableString = field(default=None, versions="8+", ignorable=True)
    current_leader: ProduceResponseLeaderIdAndEpoch = field(versions="10+", tag=0, tagged="10+")


@struct
class TopicProduceResponse(Message):
    """One of `responses` in `ProduceResponse`."""

    name: String = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_responses: Array[PartitionProduceResponse]


@struct
class ProduceResponseNodeEndpoint(Message):
    """One of `node_endpoints` in `ProduceResponse`."""

    node_id: Int32 = field(versions="10+")
    host: String = field(versions="10+")
    port: Int32 = field(versions="10+")
    rack: NullableString = field(default=None, versions="10+")


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """The base offset of each batch, or its error. Kafka: ProduceResponse.json."""

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Int32 = field(default=0, versions="1+", ignorable=True)
    node_endpoints: Array[ProduceResponseNodeEndpoint] = field(versions="10+", tag=0, tagged="10+")
