"""The parts of a broker that questions about records are put to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.handlers.data.record_checks import RecordChecks
from kohort.broker.partitions import PartitionTable, ProducerIds
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.transport.counters import TransportCounters

if TYPE_CHECKING:
    from kohort.broker.handlers.data.transactional import Permissions
    from kohort.broker.handlers.transactions.family import TransactionServices


class Data(msgspec.Struct, frozen=True):
    """The partitions of this broker, and what appending to them and reading from them takes."""

    partitions: PartitionTable
    flusher: Flusher
    fetch_sessions: FetchSessions
    checks: RecordChecks
    producer_ids: ProducerIds
    current: CurrentConfig
    timers: Timers
    clock: Clock
    counters: PartitionCounters
    requests: TransportCounters
    """Where errors are counted that clients were answered."""
    transactions: "TransactionServices | None" = None
    """None until first use."""
    permissions: "Callable[[], Permissions] | None" = None
