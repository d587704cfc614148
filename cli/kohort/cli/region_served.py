"""What `kohort region coordinate` serves over HTTP."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kohort.cli.queue_families import REGION_RULES, metric_of
from kohort.queues.region import RegionCoordinator

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class ServedCoordinator:
    """A coordinator, as `worker_server.Worker` has it."""

    kind = "region"

    def __init__(self, coordinator: RegionCoordinator) -> None:
        self._coordinator = coordinator

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the coordinators' group, and does not stop."""
        return self._coordinator.is_ready

    def status(self) -> Mapping[str, object]:
        """Return how the region stands."""
        return {"role": "coordinator", **self._coordinator.status()}

    def metrics(self) -> "Iterable[Metric]":
        """Yield whether it decides."""
        name = self._coordinator.region.name
        yield metric_of(REGION_RULES, [([name], float(self._coordinator.rules))])
