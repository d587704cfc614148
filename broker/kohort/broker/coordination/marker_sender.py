"""The markers of prepared transactions, sent until each partition has its own.

A marker for a partition that this broker leads is written here; other brokers are asked to write the others.
Kafka: TransactionMarkerChannelManager.
"""

from collections.abc import Callable
from functools import partial

import structlog

from kohort.broker.coordination.coordinator_shards import CoordinatorShards
from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.coordination.transaction_markers import Marker, MarkerWriter
from kohort.broker.coordination.transaction_wire import WRITE_MARKERS
from kohort.broker.transactions.commands import MarkersDue, MarkersWritten
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.transaction import TopicPartition
from kohort.protocol.errors import ErrorCode

MARKER_RETRY_MS = 100
FINAL = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""The transaction was ended in that partition with a newer epoch: it needs no marker any more."""

log = structlog.get_logger("kohort.transaction")


class MarkerSender:
    """Sends the markers of transactions whose end is decided. The loop's thread only."""

    def __init__(
        self,
        shards: CoordinatorShards[str, TransactionCoordinator],
        services: CoordinatorServices,
        markers: MarkerWriter,
        peers: PeerRequests | None,
        *,
        on_ended: Callable[[str], None],
    ) -> None:
        """`on_ended` gets the transactional id when all partitions of its transaction have their marker."""
        self.on_ended = on_ended
        self._shards = shards
        self._services = services
        self._markers = markers
        self._peers = peers

    def send(self, shard: Shard[TransactionCoordinator], due: MarkersDue) -> None:
        """Send the markers of a transaction."""
        _EndingTransaction(self, shard, due).begin()

    def write(
        self, index: int, due: MarkersDue, place: TopicPartition, written: Callable[[ErrorCode], None]
    ) -> None:
        """Write one marker for a shard; `written` is called with the result."""
        partitions = self._services.partitions
        partition = partitions.peek(self._shards.topic, index)
        epoch = 0 if partition is None else partition.leader_epoch
        marker = Marker(due.producer_id, due.producer_epoch, due.is_commit, epoch, due.client_version)
        if self._peers is None or partitions.leads(*place):
            self._markers.write(marker, place, written)
            return
        leader = self._shards.leader_of(*place)
        if leader is None:
            written(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._peers.ask(leader, WRITE_MARKERS, (marker, place), written)

    def is_deleted(self, place: TopicPartition) -> bool:
        """Whether a partition was deleted."""
        topic = self._services.metadata.snapshot().topics.get(place[0])
        return topic is None or not 0 <= place[1] < len(topic.partitions)

    def retry(self, key: object, action: Callable[[], None]) -> None:
        """Do `action` in a while: a marker was not written."""
        clock, timers = self._services.clock, self._services.timers
        timers.set(key, clock.now_ms() + MARKER_RETRY_MS, action)


class _EndingTransaction:
    """A transaction whose end is decided, and the partitions that lack their marker."""

    def __init__(self, sender: MarkerSender, shard: Shard[TransactionCoordinator], due: MarkersDue) -> None:
        self._sender = sender
        self._shard = shard
        self._core = shard.core
        self._due = due
        self._missing = set(due.partitions)

    def begin(self) -> None:
        """Write all markers."""
        if not self._missing:
            self._complete()
        for place in sorted(self._missing):
            self._write(place)

    @property
    def _is_over(self) -> bool:
        """Whether the shard was dropped since: the broker that loads it next sends the missing markers.

        The same epoch of the producer may have another transaction by then, which this one must not end.
        """
        return self._shard.core is not self._core or self._shard.state is not ShardState.ACTIVE

    def _complete(self) -> None:
        due = self._due
        self._shard.submit(MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch))
        self._sender.on_ended(due.transactional_id)

    def _write(self, place: TopicPartition) -> None:
        self._sender.write(self._shard.index, self._due, place, partial(self._written, place))

    def _written(self, place: TopicPartition, code: ErrorCode) -> None:
        if self._is_over:
            return
        if code is ErrorCode.NONE or code in FINAL or self._sender.is_deleted(place):
            if code in FINAL:
                log.warning(
                    "a marker is not needed any more",
                    transactional_id=self._due.transactional_id,
                    topic=place[0],
                    partition=place[1],
                    error=code.name,
                )
            self._missing.discard(place)
            if not self._missing:
                self._complete()
        else:
            self._sender.retry(("marker", self, place), partial(self._again, place))

    def _again(self, place: TopicPartition) -> None:
        if not self._is_over:
            self._write(place)
