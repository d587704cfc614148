"""DescribeAcls: there is no authorizer, so there are no ACLs. Source: Kafka's AclApis."""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import DescribeAclsRequest, DescribeAclsResponse


def handle(admin: Administration, message: DescribeAclsRequest, request: Request) -> DescribeAclsResponse:
    """Return what Kafka answers without an authorizer."""
    return DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )
