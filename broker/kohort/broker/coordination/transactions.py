"""The parts of the transaction coordinator put together, for a broker that is asked for one."""

from collections.abc import Awaitable, Callable

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.transaction_machine import TransactionMachine
from kohort.broker.coordination.transaction_markers import MarkerWriter
from kohort.broker.coordination.transaction_peers import TransactionPeers
from kohort.broker.coordination.transaction_shards import TransactionShards
from kohort.broker.metadata import MetadataStore
from kohort.broker.partitions import PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.other_brokers import OtherBrokers
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transactions.coordinator import TransactionConfig

log = structlog.get_logger("kohort.transaction")


def transaction_coordinators(
    metadata: MetadataStore,
    current: CurrentConfig,
    *,
    ensure_topic: Callable[[], Awaitable[object]],
    partitions: PartitionTable,
    groups: GroupShards,
    flusher: Flusher,
    timers: Timers,
    clock: Clock,
    workers: Workers,
    others: OtherBrokers | None = None,
) -> TransactionShards:
    """Return the coordinators; nothing of them is loaded yet. `others` are asked for what they lead."""
    config = current.config
    machine = TransactionMachine(
        TransactionConfig(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
    )
    return TransactionShards(
        machine,
        metadata,
        current,
        ensure_topic=ensure_topic,
        partitions=partitions,
        markers=MarkerWriter(partitions, groups, flusher, clock, workers),
        flusher=flusher,
        timers=timers,
        clock=clock,
        workers=workers,
        peers=None if others is None else TransactionPeers(others, workers, ThrottledLog(log, clock)),
    )
