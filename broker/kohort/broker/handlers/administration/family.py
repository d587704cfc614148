"""The parts of a broker that questions about the cluster are put to."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import BrokerState, MetadataStore, Snapshot
from kohort.broker.metadata.client_metrics import TelemetryReceiver
from kohort.broker.metadata.configs import Configs
from kohort.broker.metadata.topics import Topics
from kohort.broker.runtime.workers import Workers

MEASURING_THREADS = 2
"""How many threads read the sizes of logs for clients at once: the others are left to other work."""


class Administration(msgspec.Struct, frozen=True):
    """The cluster's facts, and how they are changed."""

    metadata: MetadataStore
    topics: Topics
    configs: Configs
    current: CurrentConfig
    cluster_id: str
    node_id: int
    data_path: Path
    """The folder with the logs."""
    workers: Workers
    telemetry: TelemetryReceiver
    expel: Callable[[BrokerState], Awaitable[Snapshot]] | None = None
    """Takes a broker's registration away; None where there is one broker."""
    forget_life: Callable[[int], Awaitable[bool]] | None = None
    """Forgets the last registration of an unregistered broker without data."""
    measuring: object = None
    """The limiter of threads that measure logs."""

    def __post_init__(self) -> None:
        """Make the limiter."""
        msgspec.structs.force_setattr(self, "measuring", self.workers.limiter(MEASURING_THREADS))
