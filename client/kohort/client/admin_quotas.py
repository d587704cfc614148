"""The admin client's requests about quotas."""

from collections.abc import Mapping

from kohort.client.admin_items import AdminCalls
from kohort.client.errors import check
from kohort.client.quotas import EVERY_QUOTA, QUOTA_DEFAULT, QuotaEntity
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kohort.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {kind: field for field, kind in _TYPES.items()}
_EXACT, _DEFAULT = 0, 1


class QuotaAdmin(AdminCalls):
    """Calls that any broker answers."""

    async def describe_quotas(self, wanted: QuotaEntity = EVERY_QUOTA) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas, by name, of every entity that has the parts of `wanted`. Raises: BrokerError."""
        components = tuple(
            DescribeClientQuotasComponent(
                entity_type=kind, match_type=_EXACT if name is not None else _DEFAULT, match=name
            )
            for kind, name in _parts(wanted).items()
        )
        request = DescribeClientQuotasRequest(components=components, strict=False)
        answer = await self._ask_any(request, DescribeClientQuotasResponse)
        check(answer.error_code, answer.error_message)
        return {
            _entity({part.entity_type: part.entity_name for part in each.entity}): {
                value.key: value.value for value in each.values
            }
            for each in answer.entries or ()
        }

    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, such as `producer_byte_rate`. None removes a quota. All others stay.

        Raises: BrokerError.
        """
        entry = AlterClientQuotasEntry(
            entity=tuple(
                AlterClientQuotasEntity(entity_type=kind, entity_name=name)
                for kind, name in _parts(entity).items()
            ),
            ops=tuple(
                AlterClientQuotasOperation(key=key, value=value or 0.0, remove=value is None)
                for key, value in changes.items()
            ),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
        answer = await self._ask_any(request, AlterClientQuotasResponse)
        for each in answer.entries:
            check(each.error_code, each.error_message)


def _parts(entity: QuotaEntity) -> dict[str, str | None]:
    """Return names by the types that the protocol has; None is the default."""
    given = {kind: getattr(entity, field) for field, kind in _TYPES.items()}
    return {kind: None if name == QUOTA_DEFAULT else name for kind, name in given.items() if name is not None}


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    named = {_FIELDS[kind]: QUOTA_DEFAULT if name is None else name for kind, name in parts.items()}
    return QuotaEntity(**named)
