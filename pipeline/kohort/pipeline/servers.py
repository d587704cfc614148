"""The addresses of a cluster and its client settings, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.config import AdminConfig, AdminOptions

CLIENT_ID = "kohort-spark"


@dataclass(frozen=True)
class Servers:
    """What every job takes as `bootstrap` where HOST:PORT alone does not do.

        Servers("broker:9093", {"security_protocol": "SSL", "ssl_truststore_location": "/etc/kohort/ca.pem"})

    `settings` are the settings of every kohort client, under their names: TLS, SASL, times. The files that
    they name are on the driver and on each executor.
    """

    bootstrap: str
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int], repr=False)

    def options(self) -> dict[str, str]:
        """Return what format("kohort") takes of it."""
        return {"bootstrap": self.bootstrap} | {name: str(value) for name, value in self.settings.items()}

    def config(self, **more: str | int) -> AdminConfig:
        """Return the settings of a client: those here, and `more` for all others.

        Raises: ConfigurationError.
        """
        from kohort.client.config import admin_config  # noqa: PLC0415  # Who reads files needs no client.

        return admin_config(self._client_options(more))

    def admin(self, **more: str | int) -> Admin:
        """Return an Admin for the cluster, set as in `config`. Raises: ConfigurationError."""
        from kohort.client import Admin  # noqa: PLC0415  # As above.

        return Admin(**cast("AdminOptions", self._client_options(more)))

    def _client_options(self, more: Mapping[str, str | int]) -> dict[str, str | int]:
        return {"client_id": CLIENT_ID, **more, **self.settings, "bootstrap_servers": self.bootstrap}


def as_servers(given: str | Servers) -> Servers:
    """Return the servers that a caller gave, HOST:PORT alone or with settings."""
    return Servers(given) if isinstance(given, str) else given
