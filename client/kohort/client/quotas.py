"""Quotas, as the Admin takes and returns them."""

import msgspec

__all__ = ["QUOTA_DEFAULT", "QuotaEntity"]

QUOTA_DEFAULT = "<default>"
"""In the place of a name: all that have no quota of their own. Kafka's tools write it so."""


class QuotaEntity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose quotas: a user's, a client id's, those of a user with a client id, or an address's.

    What is None has no part in it; `QUOTA_DEFAULT` stands for all that have none of their own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


EVERY_QUOTA = QuotaEntity()
