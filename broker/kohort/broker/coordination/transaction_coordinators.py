"""The transaction shards of this broker, and markers: written until each partition has its own."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.shard import INLINE_LOAD_BYTES, Shard, ShardState
from kohort.broker.coordination.shard_loading import ShardLoading
from kohort.broker.coordination.transaction_machine import TransactionMachine
from kohort.broker.coordination.transaction_markers import Marker, MarkerWriter
from kohort.broker.group import coordinator_partition
from kohort.broker.group.events import Event as CoreEvent
from kohort.broker.metadata import TRANSACTIONS_TOPIC, MetadataStore
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


class TransactionCoordinators:
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
    ) -> None:
        """`ensure_topic` makes `__transaction_state` unless it is there, and raises ApiError if it can't."""
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
        self._shards: dict[int, TransactionShard] = {}
        self._loading: ShardLoading[TransactionCoordinator] = ShardLoading(
            ensure_topic, workers, log, "transactions could not be loaded"
        )
        self._arm_expiry()

    @property
    def partitions(self) -> int:
        """How many partitions `__transaction_state` has, or will have."""
        topic = self._metadata.snapshot().topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return self._current.config.transaction_state_log_num_partitions
        return len(topic.partitions)

    def start(self) -> None:
        """Load every shard whose partition exists: what was prepared before is carried out."""
        topic = self._metadata.snapshot().topics.get(TRANSACTIONS_TOPIC)
        for index in range(0 if topic is None else len(topic.partitions)):
            self._loading.begin(self._shard(index))

    def _shard(self, index: int) -> TransactionShard:
        shard = self._shards.get(index)
        if shard is None:
            shard = self._shards[index] = Shard(
                index,
                self._machine,
                logs=self._partitions,
                flusher=self._flusher,
                timers=self._timers,
                clock=self._clock,
                workers=self._workers,
                note=partial(self._note, index),
                load_soon=self._loading.begin,
                on_loaded=lambda shard, seconds: None,
                inline_load_bytes=self.inline_load_bytes,
            )
        return shard

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """Return the active shard of a transactional id. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._shard(coordinator_partition(transactional_id, self.partitions))
        shard.check_active()
        return shard

    def now_ms(self) -> int:
        """Return the time that transactions go by."""
        return self._clock.now_ms()

    def shards(self) -> Iterator[TransactionShard]:
        """Return every shard, all of them loaded. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        for shard in self._shards.values():
            shard.check_active()
        return iter(self._shards.values())

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> ErrorCode | None:
        """Return why a partition is not part of the producer's transaction, None where it is."""
        try:
            core = self.shard_of(transactional_id).core
        except ApiError as error:
            return error.code
        return core.verify(transactional_id, producer_id, producer_epoch, place)

    # -- loading ----------------------------------------------------------------------------------------

    async def ready(self, transactional_ids: Iterable[str]) -> None:
        """Return when the shards of these ids serve, or when that takes too long."""
        indexes = (coordinator_partition(each, self.partitions) for each in transactional_ids)
        await self._loading.ended(self._shard(index) for index in indexes)

    # -- markers ----------------------------------------------------------------------------------------

    def _note(self, index: int, event: CoreEvent | MarkersDue) -> None:
        assert isinstance(event, MarkersDue)
        _Ending(self, index, event).begin()

    def write_marker(
        self, index: int, due: MarkersDue, place: Place, written: Callable[[ErrorCode], None]
    ) -> None:
        """Write one marker, on behalf of the shard with this index."""
        partition = self._partitions.peek(TRANSACTIONS_TOPIC, index)
        epoch = 0 if partition is None else partition.leader_epoch
        marker = Marker(due.producer_id, due.producer_epoch, due.is_commit, epoch)
        self.markers.write(marker, place, written)

    def is_gone(self, place: Place) -> bool:
        """Whether a partition was deleted."""
        topic = self._metadata.snapshot().topics.get(place[0])
        return topic is None or not 0 <= place[1] < len(topic.partitions)

    def later(self, key: object, action: Callable[[], None]) -> None:
        """Do something after the time that a marker waits before it is tried again."""
        self._timers.set(key, self._clock.now_ms() + MARKER_RETRY_MS, action)

    def all_written(self, index: int, due: MarkersDue) -> None:
        """Tell the shard, if it is still there, that a transaction is complete."""
        shard = self._shards.get(index)
        if shard is not None and shard.state is ShardState.ACTIVE:
            shard.submit(MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch))

    def is_active(self, index: int) -> bool:
        """Whether the shard serves: one that is loaded again asks for its markers itself."""
        shard = self._shards.get(index)
        return shard is not None and shard.state is ShardState.ACTIVE

    # -- what happens to all ------------------------------------------------------------------------------

    def _arm_expiry(self) -> None:
        interval_ms = self._current.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set("expire transactional ids", self._clock.now_ms() + interval_ms, self._expire)

    def _expire(self) -> None:
        for shard in self._shards.values():
            if shard.state is ShardState.ACTIVE:
                shard.submit(ExpireTransactionalIds())
        self._arm_expiry()

    def close(self) -> None:
        """Forget all transactional ids; what is in their logs stays."""
        for shard in self._shards.values():
            shard.close()


class _Ending:
    """One prepared transaction: which partitions lack their marker."""

    def __init__(self, coordinators: TransactionCoordinators, index: int, due: MarkersDue) -> None:
        self._coordinators = coordinators
        self._index = index
        self._due = due
        self._missing = set(due.partitions)

    def begin(self) -> None:
        """Write all markers."""
        if not self._missing:
            self._coordinators.all_written(self._index, self._due)
        for place in sorted(self._missing):
            self._write(place)

    def _write(self, place: Place) -> None:
        self._coordinators.write_marker(self._index, self._due, place, partial(self._written, place))

    def _written(self, place: Place, code: ErrorCode) -> None:
        if code is ErrorCode.NONE or code in FINAL or self._coordinators.is_gone(place):
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
                self._coordinators.all_written(self._index, self._due)
        else:
            self._coordinators.later(("marker", self, place), partial(self._again, place))

    def _again(self, place: Place) -> None:
        if self._coordinators.is_active(self._index):
            self._write(place)
