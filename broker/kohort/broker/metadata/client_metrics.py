"""The `client-metrics` resources of the metadata, and what takes clients' metrics by them.

Nearly every client asks which metrics to send. Most clusters have no subscription: then the broker does not
import `kohort.broker.telemetry`, and keeps nothing about the client.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.broker.metadata.snapshot import ConfigResource, ResourceType, Snapshot
from kohort.broker.metadata.store import MetadataStore

if TYPE_CHECKING:
    from kohort.broker.telemetry.taking import ClientMetrics

Configs = Mapping[str, Mapping[str, str]]


class TelemetryReceiver:
    """Takes clients' metrics while some are asked for. The loop's thread only."""

    def __init__(self, store: MetadataStore, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._store = store
        self._seen: Mapping[ConfigResource, Mapping[str, str]] = {}
        self._configs: Configs = {}
        self._taken: ClientMetrics | None = None

    def current(self) -> "ClientMetrics | None":
        """Return what takes metrics now, None while no resource asks for any."""
        self._follow(self._store.snapshot())
        return self._taken

    def _follow(self, snapshot: Snapshot) -> None:
        if snapshot.configs is self._seen:
            return
        self._seen = snapshot.configs
        found = client_metrics_of(snapshot)
        if found == self._configs:
            return
        self._configs = found
        if not found:
            self._taken = None
            return
        if self._taken is None:
            from kohort.broker.telemetry.taking import ClientMetrics  # noqa: PLC0415  # Most brokers need none.

            self._taken = ClientMetrics(self._now_ms)
        self._taken.configure(found)


def client_metrics_of(snapshot: Snapshot) -> Configs:
    """Return the settings of each resource by its name."""
    return {
        resource.name: configs
        for resource, configs in snapshot.configs.items()
        if resource.type is ResourceType.CLIENT_METRICS
    }


def id_without_subscription(instance_id: UUID) -> int:
    """Return the subscription id of a client of which nothing is wanted."""
    unsigned = instance_id.int & 0xFFFFFFFF
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
