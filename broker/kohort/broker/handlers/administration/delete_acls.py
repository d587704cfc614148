"""DeleteAcls: removes the entries that match a filter. Source: Kafka's AclApis and AclControlManager."""

from kohort.broker.authorization.acls import Binding, Filter, check_filter
from kohort.broker.handlers.administration.create_acls import NO_AUTHORIZER
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import update
from kohort.broker.metadata.acls import bindings, deletion, in_steps
from kohort.broker.metadata.store import Failed, storage_error
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(admin: Administration, message: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    """Return for each filter the removed entries; one that matches several is in each result."""
    if not admin.current.config.authorizer_class_name:
        refused = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=()
        )
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=(refused,) * len(message.filters))
    snapshot = admin.metadata.snapshot()
    found: list[list[Binding] | ApiError] = []
    for each in message.filters:
        try:
            found.append(list(bindings(snapshot, filter_of(each))))
        except ApiError as error:
            found.append(error)
    wanted = dict.fromkeys(binding for some in found if isinstance(some, list) for binding in some)
    failed: dict[Binding, ApiError] = {}
    for step in in_steps(list(wanted)):
        try:
            await update(admin.metadata, lambda now, step=step: deletion(now, step))  # type: ignore[misc]
        except Failed as error:
            failed |= dict.fromkeys(step, storage_error(error))
    results = tuple(_result(each, failed) for each in found)
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def filter_of(asked: DeleteAclsFilter) -> Filter:
    """Return which entries are meant. Raises: ApiError."""
    return check_filter(
        Filter(
            asked.resource_type_filter,
            asked.pattern_type_filter,
            asked.resource_name_filter,
            asked.principal_filter,
            asked.host_filter,
            asked.operation,
            asked.permission_type,
        )
    )


def _result(found: list[Binding] | ApiError, failed: dict[Binding, ApiError]) -> DeleteAclsFilterResult:
    if isinstance(found, ApiError):
        return DeleteAclsFilterResult(error_code=found.code, error_message=found.message, matching_acls=())
    return DeleteAclsFilterResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        matching_acls=tuple(_matching(each, failed.get(each)) for each in found),
    )


def _matching(binding: Binding, error: ApiError | None) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
