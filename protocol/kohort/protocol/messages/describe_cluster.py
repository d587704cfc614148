"""DescribeCluster (60): the brokers and the cluster's id."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    field,
)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    """Whether brokers or controllers are listed. Kafka: DescribeClusterRequest.json."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field(default=1, versions="1+")
    include_fenced_brokers: Bool = field(versions="2+")


@struct
class DescribeClusterBroker(Message):
    """One of `brokers` in `DescribeClusterResponse`."""

    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = field(default=None)
    is_fenced: Bool = field(versions="2+")


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """The cluster's id, its controller and its nodes. Kafka: DescribeClusterResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    endpoint_type: Int8 = field(default=1, versions="1+")
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = field(default=-2147483648)
