"""CreateAcls: access control entries come into force. Source: Kafka's AclApis and AclControlManager."""

from kohort.broker.authorization.acls import Binding, checked_binding
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import update
from kohort.broker.metadata.acls import creation, in_steps
from kohort.broker.metadata.store import Failed, storage_error
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

NO_AUTHORIZER = "No Authorizer is configured."
NONE = AclCreationResult(error_code=ErrorCode.NONE, error_message=None)


async def handle(admin: Administration, message: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    """Return for each entry that it counts from now on, or why it can't."""
    if not admin.current.config.authorizer_class_name:
        refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return CreateAclsResponse(throttle_time_ms=0, results=(refused,) * len(message.creations))
    results: list[AclCreationResult] = []
    wanted: list[tuple[int, Binding]] = []
    for place, each in enumerate(message.creations):
        try:
            wanted.append((place, _binding(each)))
            results.append(NONE)
        except ApiError as error:
            results.append(_refused(error))
    places: dict[Binding, list[int]] = {}
    for place, binding in wanted:
        places.setdefault(binding, []).append(place)
    for step in in_steps(list(places)):
        try:
            await update(admin.metadata, lambda now, step=step: creation(now, step))  # type: ignore[misc]
        except Failed as error:
            for binding in step:
                for place in places[binding]:
                    results[place] = _refused(storage_error(error))
    return CreateAclsResponse(throttle_time_ms=0, results=tuple(results))


def _binding(asked: AclCreation) -> Binding:
    """Return the entry to create. Raises: ApiError."""
    return checked_binding(
        asked.resource_type,
        asked.resource_pattern_type,
        asked.resource_name,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _refused(error: ApiError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.message)
