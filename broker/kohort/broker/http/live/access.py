"""Access control entries and quotas on the live page, if the page may show them."""

from collections.abc import Iterable, Mapping
from itertools import islice

from kohort.broker.authorization.acls import Entry, Pattern
from kohort.broker.http.asking import NotAnswered
from kohort.broker.http.view import View
from kohort.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

ACLS_SHOWN = 200
QUOTAS_SHOWN = 200
USES_SHOWN = 100
QUOTAS_VERSION = 1

Json = Mapping[str, object]


async def access_view(view: View) -> Json:
    """Return the entries, the quotas, and how much clients use of their quotas on this broker.

    They are shown only if the page may show records: whoever may read records may see who else may.
    """
    if not view.shows_messages():
        return {"is_hidden": True, "acls": [], "acls_left_out": False, "quotas": [], "uses": []}
    acls = list(islice(view.acl_bindings(), ACLS_SHOWN + 1))
    return {
        "is_hidden": False,
        "acls": [_acl(*each) for each in acls[:ACLS_SHOWN]],
        "acls_left_out": len(acls) > ACLS_SHOWN,
        "quotas": await _quotas(view),
        "uses": first_uses(
            {
                "broker": view.node_id,
                "key": each.key,
                "user": each.user,
                "client_id": each.client_id,
                "value": each.value,
                "throttle_ms": each.throttle_ms,
            }
            for each in view.quota_uses()
        ),
    }


def first_uses(rows: Iterable[Json]) -> list[Json]:
    """Return the rows that are shown: throttled clients first."""
    order = sorted(rows, key=lambda each: (-_milliseconds(each), str(each["user"]), str(each["client_id"])))
    return order[:USES_SHOWN]


def _milliseconds(row: Json) -> int:
    found = row["throttle_ms"]
    return found if isinstance(found, int) else 0


def _acl(pattern: Pattern, entry: Entry) -> Json:
    """Return an entry as JSON, with Kafka's names."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "permission": entry.permission.name,
        "operation": entry.operation.name,
        "resource_type": pattern.resource_type.name,
        "pattern_type": pattern.pattern_type.name,
        "name": pattern.name,
    }


async def _quotas(view: View) -> list[Json]:
    asked = DescribeClientQuotasRequest(components=(), strict=False)
    try:
        found = await view.reads()("DescribeClientQuotas", QUOTAS_VERSION, asked)
    except NotAnswered:
        return []
    assert isinstance(found, DescribeClientQuotasResponse)
    return [_quota(each) for each in (found.entries or ())[:QUOTAS_SHOWN]]


def _quota(entry: DescribeClientQuotasEntry) -> Json:
    return {
        "entity": [[each.entity_type, each.entity_name] for each in entry.entity],
        "values": [[each.key, each.value] for each in entry.values],
    }
