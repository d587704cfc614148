"""DescribeClientQuotas: the quotas that match a filter. Source: Kafka's ClientQuotaCache."""

from collections.abc import Mapping, Sequence

from kohort.broker.handlers.administration.client_quotas import DEFAULT, EXACT, check_filter
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.quotas import quotas
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)


def handle(
    admin: Administration, message: DescribeClientQuotasRequest, request: Request
) -> DescribeClientQuotasResponse:
    """Return the quotas, or the error of the filter."""
    try:
        check_filter(message.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None
        )
    entries = tuple(
        _entry(entity, values)
        for entity, values in quotas(admin.metadata.snapshot())
        if _takes(message.components, entity, strict=message.strict)
    )
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, entries=entries
    )


def _takes(
    components: Sequence[DescribeClientQuotasComponent], entity: Mapping[str, str | None], *, strict: bool
) -> bool:
    """Return whether the entity has all components, and, strictly, no other."""
    if strict and len(entity) != len(components):
        return False
    return all(each.entity_type in entity and _is(each, entity[each.entity_type]) for each in components)


def _is(component: DescribeClientQuotasComponent, name: str | None) -> bool:
    if component.match_type == EXACT:
        return component.match == name
    return component.match_type != DEFAULT or name is None


def _entry(entity: Mapping[str, str | None], values: Mapping[str, float]) -> DescribeClientQuotasEntry:
    return DescribeClientQuotasEntry(
        entity=tuple(
            DescribeClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ),
        values=tuple(DescribeClientQuotasValue(key=key, value=value) for key, value in values.items()),
    )
