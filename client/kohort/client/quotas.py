"""Quotas, as the Admin takes and returns them."""

import msgspec

__all__ = ["QUOTA_DEFAULT", "QuotaEntity"]

QUOTA_DEFAULT = "<default>"
"""Instead of a name: all that have no quota of their own. Kafka's tools write it so."""


class QuotaEntity(msgspec.Struct, frozen=True, kw_only=True):
    """The entity of a quota: a user, a client id, a user with a client id, or an address.

    None is no part of it; `QUOTA_DEFAULT` means all that have no quota of their own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


EVERY_QUOTA = QuotaEntity()
