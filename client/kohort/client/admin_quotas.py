"""The admin client's requests about quotas."""

from collections.abc import Mapping

from kohort.client.cluster import Cluster
from kohort.client.errors import check
from kohort.client.quotas import QUOTA_DEFAULT, QuotaEntity
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


class QuotaAdmin:
    """Requests that any broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def described(self, wanted: QuotaEntity) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of every entity that has these parts. Raises: BrokerError."""
        components = tuple(
            DescribeClientQuotasComponent(
                entity_type=kind, match_type=_EXACT if name is not None else _DEFAULT, match=name
            )
            for kind, name in _parts(wanted).items()
        )
        request = DescribeClientQuotasRequest(components=components, strict=False)
        answer = await self._cluster.retrying(
            lambda: self._cluster.request_any(request, DescribeClientQuotasResponse)
        )
        check(answer.error_code, answer.error_message)
        return {
            _entity({part.entity_type: part.entity_name for part in each.entity}): {
                value.key: value.value for value in each.values
            }
            for each in answer.entries or ()
        }

    async def alter(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Set quotas of the entity; None removes one. Raises: BrokerError."""
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
        answer = await self._cluster.retrying(
            lambda: self._cluster.request_any(request, AlterClientQuotasResponse)
        )
        for each in answer.entries:
            check(each.error_code, each.error_message)


def _parts(entity: QuotaEntity) -> dict[str, str | None]:
    """Return names by the types that the protocol has; None is the default."""
    given = {kind: getattr(entity, field) for field, kind in _TYPES.items()}
    return {kind: None if name == QUOTA_DEFAULT else name for kind, name in given.items() if name is not None}


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    named = {_FIELDS[kind]: QUOTA_DEFAULT if name is None else name for kind, name in parts.items()}
    return QuotaEntity(**named)
