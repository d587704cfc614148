"""CreateAcls: there is no authorizer that would heed them. Source: Kafka's AclApis."""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import AclCreationResult, CreateAclsRequest, CreateAclsResponse

NO_AUTHORIZER = "No Authorizer is configured."


def handle(admin: Administration, message: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    """Return what Kafka answers without an authorizer, for each entry."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(throttle_time_ms=0, results=(refused,) * len(message.creations))
