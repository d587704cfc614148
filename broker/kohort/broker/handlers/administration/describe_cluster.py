"""DescribeCluster: the brokers, the cluster's id and its controller."""

from kohort.broker.handlers.administration.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(
    admin: Administration, message: DescribeClusterRequest, request: Request
) -> DescribeClusterResponse:
    """Return the cluster as its brokers see it; a broker can't answer for controllers (KIP-919)."""
    if message.endpoint_type == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a admin, not a controller")
    if message.endpoint_type != BROKERS:
        text = f"there is no endpoint type {message.endpoint_type}"
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    snapshot = admin.metadata.snapshot()
    asked = message.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        cluster_id=snapshot.cluster_id,
        controller_id=snapshot.controller_id,
        brokers=tuple(
            DescribeClusterBroker(broker_id=each.node_id, host=host, port=port, rack=each.rack)
            for each in snapshot.brokers
            for host, port in (each.address(request.connection.listener),)
        ),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


def _refused(code: ErrorCode, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=code, error_message=text, cluster_id="", brokers=()
    )
