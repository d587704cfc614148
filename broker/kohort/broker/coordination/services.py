"""What every coordinator uses of its broker."""

from typing import NamedTuple

from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import MetadataStore
from kohort.broker.partitions import PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.other_brokers import OtherBrokers
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers


class CoordinatorServices(NamedTuple):
    """The broker's metadata, settings, logs, time and tasks, as coordinators are given them."""

    metadata: MetadataStore
    current: CurrentConfig
    partitions: PartitionTable
    flusher: Flusher
    timers: Timers
    clock: Clock
    workers: Workers
    others: OtherBrokers | None = None
    """The other brokers of the cluster; None where this broker is alone, and leads every partition."""
