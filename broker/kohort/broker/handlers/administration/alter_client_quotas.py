"""AlterClientQuotas: quotas of users, client ids and addresses come into force.

Source: Kafka's ClientQuotaControlManager.
"""

from kohort.broker.handlers.administration.client_quotas import check_entity, check_value
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import Mutation, Snapshot, update
from kohort.broker.metadata.quotas import alteration
from kohort.broker.metadata.store import Failed, storage_error
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
    AlterClientQuotasResultEntity,
)


async def handle(
    admin: Administration, message: AlterClientQuotasRequest, request: Request
) -> AlterClientQuotasResponse:
    """Return for each entity that its quotas count, or why they can't."""
    entries = [await _result(admin, entry, message.validate_only) for entry in message.entries]
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=tuple(entries))


async def _result(
    admin: Administration, entry: AlterClientQuotasEntry, validate_only: bool
) -> AlterClientQuotasResult:
    code, text = ErrorCode.NONE, None
    try:
        changes = _checked(entry)
        if not validate_only:
            await _alter(admin, entry, changes)
    except ApiError as error:
        code, text = error.code, error.message
    return AlterClientQuotasResult(
        error_code=code,
        error_message=text,
        entity=tuple(
            AlterClientQuotasResultEntity(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ),
    )


def _checked(entry: AlterClientQuotasEntry) -> dict[str, float | None]:
    """Return the value to set, None to remove it. Raises: ApiError."""
    keys = check_entity({each.entity_type: each.entity_name for each in entry.entity})
    changes: dict[str, float | None] = {}
    for each in entry.ops:
        if each.key in changes:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate quota key {each.key} not allowed")
        if not each.remove:
            check_value(keys, each.key, each.value)
        changes[each.key] = None if each.remove else each.value
    return changes


async def _alter(
    admin: Administration, entry: AlterClientQuotasEntry, changes: dict[str, float | None]
) -> None:
    """Change the quotas of one entity. Raises: ApiError."""
    entity = {each.entity_type: each.entity_name for each in entry.entity}

    def decide(snapshot: Snapshot) -> Mutation:
        return alteration(snapshot, entity, changes)

    try:
        await update(admin.metadata, decide)
    except Failed as error:
        raise storage_error(error) from error
