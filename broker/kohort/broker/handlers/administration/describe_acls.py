"""DescribeAcls: the access control entries that a filter takes. Source: Kafka's AclApis."""

from kohort.broker.authorization.acls import Entry, Filter, Pattern, check_filter
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.acls import bindings
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(admin: Administration, message: DescribeAclsRequest, request: Request) -> DescribeAclsResponse:
    """Return the entries, pattern by pattern."""
    if not admin.current.config.authorizer_class_name:
        return _refused(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    try:
        wanted = check_filter(
            Filter(
                message.resource_type_filter,
                message.pattern_type_filter,
                message.resource_name_filter,
                message.principal_filter,
                message.host_filter,
                message.operation,
                message.permission_type,
            )
        )
    except ApiError as error:
        return _refused(error.code, error.message)
    found: dict[Pattern, list[Entry]] = {}
    for pattern, entry in bindings(admin.metadata.snapshot(), wanted):
        found.setdefault(pattern, []).append(entry)
    return DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        resources=tuple(_resource(pattern, entries) for pattern, entries in found.items()),
    )


def _resource(pattern: Pattern, entries: list[Entry]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=tuple(
            AclDescription(
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in entries
        ),
    )


def _refused(code: ErrorCode, text: str | None) -> DescribeAclsResponse:
    return DescribeAclsResponse(throttle_time_ms=0, error_code=code, error_message=text, resources=())
