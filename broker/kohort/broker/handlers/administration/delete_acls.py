"""DeleteAcls: there is no authorizer, so there are no ACLs. Source: Kafka's AclApis."""

from kohort.broker.handlers.administration.create_acls import NO_AUTHORIZER
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(admin: Administration, message: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    """Return what Kafka answers without an authorizer, for each filter."""
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=(refused,) * len(message.filters))
