"""The transaction shards of this broker, and markers: written until each partition has its own.

In a cluster this broker coordinates what the partitions of `__transaction_state` hold that it leads. Markers
for partitions that others lead are asked of them, and what this broker has to know of transactions that
others coordinate as well.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.led_shards import LedShards
from kohort.broker.coordination.shard import INLINE_LOAD_BYTES, Shard, ShardState
from kohort.broker.coordination.transaction_machine import TransactionMachine
from kohort.broker.coordination.transaction_markers import Marker, MarkerWriter
from kohort.broker.coordination.transaction_peers import Addition, TransactionPeers
from kohort.broker.group import coordinator_partition
from kohort.broker.group.events import Event as CoreEvent
from kohort.broker.metadata import NO_LEADER, TRANSACTIONS_TOPIC, MetadataStore
from kohort.broker.partitions import PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transactions.commands import ExpireTransactionalIds, MarkersDue, MarkersWritten
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.transaction import Place
from kohort.protocol.errors import ApiError, ErrorCode

MARKER_RETRY_MS = 100
FINAL = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""Somebody newer has ended the transaction in that partition: there is nothing left to do."""

TransactionShard = Shard[TransactionCoordinator]

log = structlog.get_logger("kohort.transaction")


class _Seen(NamedTuple):
    """What a partition has seen of a producer."""

    led: tuple[object, int]
    """Its log, and the epoch under which this broker leads."""
    markers: int
    ending: int
    """How many markers are on their way into the log."""


class TransactionShards:
    """Every transaction shard by its partition. All methods belong to the loop's thread."""

    inline_load_bytes = INLINE_LOAD_BYTES

    def __init__(
        self,
        machine: TransactionMachine,
        metadata: MetadataStore,
        current: CurrentConfig,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        partitions: PartitionTable,
        markers: MarkerWriter,
        flusher: Flusher,
        timers: Timers,
        clock: Clock,
        workers: Workers,
        peers: TransactionPeers | None = None,
    ) -> None:
        """`ensure_topic` makes `__transaction_state` unless it is there, and raises ApiError if it can't.

        `peers` are asked for what other brokers lead; without them, this broker leads everything.
        """
        self._machine = machine
        self._metadata = metadata
        self._current = current
        self.ensure_topic = ensure_topic
        self._partitions = partitions
        self.markers = markers
        self._flusher = flusher
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._peers = peers
        self._waiting: dict[str, dict[object, Callable[[], None]]] = {}  # By transactional id.
        self._shards: LedShards[TransactionCoordinator] = LedShards(
            TRANSACTIONS_TOPIC,
            metadata,
            self._new_shard,
            ensure_topic=ensure_topic,
            workers=workers,
            log=log,
            trouble="transactions could not be loaded",
            leads=None if peers is None else partial(partitions.leads, TRANSACTIONS_TOPIC),
        )
        self._arm_expiry()

    @property
    def partitions(self) -> int:
        """How many partitions `__transaction_state` has, or will have."""
        return self._shards.partitions(self._current.config.transaction_state_log_num_partitions)

    def refresh(self) -> None:
        """Take up the shards that this broker leads by now, and drop those that it leads no more."""
        self._shards.refresh()

    def is_here(self, index: int) -> bool:
        """Whether this broker coordinates the transactions of that partition."""
        return self._shards.is_here(index)

    def is_coordinated_here(self, transactional_id: str) -> bool:
        """Whether this broker coordinates the transactions of that id."""
        return self.is_here(coordinator_partition(transactional_id, self.partitions))

    def _new_shard(self, index: int, load_soon: Callable[[TransactionShard], None]) -> TransactionShard:
        def note(event: CoreEvent | MarkersDue) -> None:
            assert isinstance(event, MarkersDue)
            _Ending(self, shard, event).begin()

        shard: TransactionShard = Shard(
            index,
            self._machine,
            logs=self._partitions,
            flusher=self._flusher,
            timers=self._timers,
            clock=self._clock,
            workers=self._workers,
            note=note,
            load_soon=load_soon,
            on_loaded=lambda shard, seconds: None,
            inline_load_bytes=self.inline_load_bytes,
        )
        return shard

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """Return the active shard of a transactional id.

        Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR where another broker has it.
        """
        return self._shards.serving(coordinator_partition(transactional_id, self.partitions))

    def deciding_shard_of(self, transactional_id: str) -> TransactionShard:
        """Return the active shard of a transactional id, which something is to be decided for.

        Raises: ApiError, as `shard_of`, and COORDINATOR_NOT_AVAILABLE while too few replicas would have it.
        """
        shard = self.shard_of(transactional_id)
        shard.check_enough_replicas()
        return shard

    def now_ms(self) -> int:
        """Return the time that transactions go by."""
        return self._clock.now_ms()

    def active(self) -> Iterator[TransactionShard]:
        """Return every shard, all of them loaded. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        return self._shards.all_serving()

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> ErrorCode | None:
        """Return why a partition is not part of the producer's transaction, None where it is.

        That is a look into what this broker coordinates.
        """
        try:
            core = self.shard_of(transactional_id).core
        except ApiError as error:
            return error.code
        return core.verify(transactional_id, producer_id, producer_epoch, place)

    def ask_coordinator(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        place: Place,
        answered: Callable[[ErrorCode | None], None],
        *,
        verify_only: bool,
    ) -> None:
        """Have who coordinates an id add a partition to its transaction, or say whether it is part of it.

        `answered` is called with None where the partition belongs to it, in the order of the calls. What
        ended the transaction here while the answer was on its way counts more. Where this broker does not
        lead the partition as it did, nobody knows that, and the question has to be asked again.
        """
        assert self._peers is not None
        index = coordinator_partition(transactional_id, self.partitions)
        leader = self._leader_of((TRANSACTIONS_TOPIC, index))
        if leader is None:
            answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        before = self._seen_of(producer_id, place)

        def told(code: ErrorCode) -> None:
            now = self._seen_of(producer_id, place)
            if code is not ErrorCode.NONE:
                answered(code)
            elif before is None or now is None or now.led != before.led:
                answered(ErrorCode.NOT_COORDINATOR)
            else:
                answered(None if now == before else ErrorCode.INVALID_TXN_STATE)

        addition = Addition(transactional_id, producer_id, producer_epoch, place, verify_only)
        self._peers.add(leader, addition, told)

    def _seen_of(self, producer_id: int, place: Place) -> "_Seen | None":
        """Return what a partition has seen of a producer: what is equal later had no marker in between."""
        partition = self._partitions.peek(*place)
        log = None if partition is None else partition.serving_log
        if partition is None or log is None:
            return None
        return _Seen(
            (log, partition.leader_epoch),
            log.producers.markers_of(producer_id),
            self.markers.ending(place, producer_id),
        )

    # -- loading ----------------------------------------------------------------------------------------

    async def ready(self, transactional_ids: Iterable[str]) -> None:
        """Return when the shards of these ids serve, or when that takes too long."""
        indexes = (coordinator_partition(each, self.partitions) for each in transactional_ids)
        await self._shards.ready(indexes)

    # -- markers ----------------------------------------------------------------------------------------

    def write_marker(
        self, index: int, due: MarkersDue, place: Place, written: Callable[[ErrorCode], None]
    ) -> None:
        """Write one marker, on behalf of the shard with this index."""
        partition = self._partitions.peek(TRANSACTIONS_TOPIC, index)
        epoch = 0 if partition is None else partition.leader_epoch
        marker = Marker(due.producer_id, due.producer_epoch, due.is_commit, epoch, due.client_version)
        if self._peers is None or self._partitions.leads(*place):
            self.markers.write(marker, place, written)
            return
        leader = self._leader_of(place)
        if leader is None:
            written(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._peers.write(leader, marker, place, written)

    def _leader_of(self, place: Place) -> int | None:
        """Return the other broker that leads a partition; None where there is none."""
        assert self._peers is not None
        topic = self._metadata.snapshot().topics.get(place[0])
        if topic is None or not 0 <= place[1] < len(topic.partitions):
            return None
        leader = topic.partitions[place[1]].leader
        return None if leader in (NO_LEADER, self._peers.node_id) else leader

    def is_gone(self, place: Place) -> bool:
        """Whether a partition was deleted."""
        topic = self._metadata.snapshot().topics.get(place[0])
        return topic is None or not 0 <= place[1] < len(topic.partitions)

    def when_ended(self, transactional_id: str, began_ms: int, action: Callable[[], None]) -> bool:
        """Do something once the id's last transaction may have ended; return False where that took too long.

        Its markers are on their way: a producer that had to come again would wait much longer.
        """
        config, now_ms = self._current.config, self._clock.now_ms()
        retry_ms = now_ms + config.add_partitions_to_txn_retry_backoff_ms
        if retry_ms - began_ms > config.add_partitions_to_txn_retry_backoff_max_ms:
            return False
        waiting = self._waiting.setdefault(transactional_id, {})
        key = object()

        def due() -> None:
            del waiting[key]
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
            action()

        waiting[key] = due
        self._timers.set(key, retry_ms, due)
        return True

    def ended(self, transactional_id: str) -> None:
        """Let those go on who wait for the end of an id's transaction."""
        for key, due in list(self._waiting.get(transactional_id, {}).items()):
            self._timers.cancel(key)
            due()

    def later(self, key: object, action: Callable[[], None]) -> None:
        """Do something after the time that a marker waits before it is tried again."""
        self._timers.set(key, self._clock.now_ms() + MARKER_RETRY_MS, action)

    # -- what happens to all ------------------------------------------------------------------------------

    def _arm_expiry(self) -> None:
        interval_ms = self._current.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set("expire transactional ids", self._clock.now_ms() + interval_ms, self._expire)

    def _expire(self) -> None:
        for shard in self._shards:
            if shard.state is ShardState.ACTIVE:
                shard.submit(ExpireTransactionalIds())
        self._arm_expiry()

    def close(self) -> None:
        """Forget all transactional ids; what is in their logs stays."""
        self._shards.close()


class _Ending:
    """One prepared transaction: which partitions lack their marker."""

    def __init__(self, shards: TransactionShards, shard: TransactionShard, due: MarkersDue) -> None:
        self._shards = shards
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
        """Whether the shard was dropped since: who loads it again asks for what is missing itself.

        By then the same epoch of the producer may have another transaction, which this one must not end.
        """
        return self._shard.core is not self._core or self._shard.state is not ShardState.ACTIVE

    def _complete(self) -> None:
        due = self._due
        self._shard.submit(MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch))
        self._shards.ended(due.transactional_id)

    def _write(self, place: Place) -> None:
        self._shards.write_marker(self._shard.index, self._due, place, partial(self._written, place))

    def _written(self, place: Place, code: ErrorCode) -> None:
        if self._is_over:
            return
        if code is ErrorCode.NONE or code in FINAL or self._shards.is_gone(place):
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
            self._shards.later(("marker", self, place), partial(self._again, place))

    def _again(self, place: Place) -> None:
        if not self._is_over:
            self._write(place)
