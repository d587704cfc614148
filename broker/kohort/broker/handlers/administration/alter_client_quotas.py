"""AlterClientQuotas: validated as Kafka does; a quota that would have to be enforced is refused.

To remove one that is not there is no error, as in Kafka. Source: Kafka's ClientQuotaControlManager.
"""

from kohort.broker.handlers.administration.client_quotas import check_entity, check_value
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
    AlterClientQuotasResultEntity,
)

NOT_ENFORCED = "This broker enforces no quotas yet, and keeps none"


def handle(
    admin: Administration, message: AlterClientQuotasRequest, request: Request
) -> AlterClientQuotasResponse:
    """Return for each entity that nothing is to be done, or why nothing can be."""
    return AlterClientQuotasResponse(
        throttle_time_ms=0, entries=tuple(_result(entry) for entry in message.entries)
    )


def _result(entry: AlterClientQuotasEntry) -> AlterClientQuotasResult:
    code, text = ErrorCode.NONE, None
    try:
        _check(entry)
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


def _check(entry: AlterClientQuotasEntry) -> None:
    """Return where nothing is to be set. Raises: ApiError."""
    keys = check_entity({each.entity_type: each.entity_name for each in entry.entity})
    wanted = [each for each in entry.ops if not each.remove]
    for each in wanted:
        check_value(keys, each.key, each.value)
    if wanted:
        raise ApiError(ErrorCode.POLICY_VIOLATION, NOT_ENFORCED)
