"""What one broker leads, as the coordinator of transactions knows partitions: on the model of replication.

Real are what a log knows of its producers, its last stable offset, its aborted transactions, and how a marker
is appended; the log itself is the model's, one record for each batch.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.broker.partitions import Partition
from kohort.broker.partitions.partition import LedElsewhere
from kohort.broker.partitions.roles import Committed
from kohort.broker.replication import Leadership
from kohort.broker.transactions.transaction import TopicPartition
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import BatchHeader, read_header
from kohort.storage import PartitionLog, StorageError
from kohort.storage.compaction import AbortedTransaction
from kohort.storage.producers import EndedTransaction, ProducerStateTable
from kohort.storage.transaction_index import AbortedTransactions
from tests.simulation.cluster.disk import MemoryLog, Record
from tests.simulation.cluster.transactions.tasks import Until

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker

WRITTEN = "written"
"""The topic that producers write to in their transactions."""


class LedLog:
    """A log as its leader has it: made anew from its records by whoever begins to lead."""

    has_transactions = PartitionLog.has_transactions
    last_stable_offset = PartitionLog.last_stable_offset
    log_start_offset = 0
    size_bytes = 0  # It is loaded at once.

    def __init__(self, log: MemoryLog, sync: Callable[[], None]) -> None:
        self._sync = sync
        self.producers = ProducerStateTable()
        self.aborted_transactions = AbortedTransactions()
        self._ended: deque[EndedTransaction] = deque()
        self._log = log
        for offset, record in enumerate(log.records):
            self._note(offset, record.value)

    def stage(self, batch: bytes, _headers: Sequence[BatchHeader], leader_epoch: int) -> int:
        """Return the offset that a batch gets; it is synced at once."""
        offset = self._log.log_end_offset
        self._log.append(Record(leader_epoch, batch))
        self._note(offset, batch)
        self._sync()
        return offset

    def _note(self, offset: int, value: object) -> None:
        if not isinstance(value, bytes):
            return  # Of a producer that is not idempotent.
        header = read_header(value)
        ended = self.producers.append(header, offset, value)
        if ended is not None:
            self._ended.append(ended)
            if ended.is_aborted:
                self.aborted_transactions.add(
                    AbortedTransaction(
                        ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
                    )
                )

    @property
    def log_end_offset(self) -> int:
        """Where the next batch goes."""
        return self._log.log_end_offset

    def read_batches(self) -> Iterator[memoryview]:
        """Yield all batches."""
        return (memoryview(batch) for _, batch in batches_of(self._log))


class LedPartition:
    """A partition under one leader epoch of this broker's."""

    append_own = Partition.append_own
    opened, replicated, deleted, offline = True, True, False, None

    def __init__(self, broker: "Broker", world_index: int, place: TopicPartition, core: Leadership) -> None:
        self.topic, self.index = place
        self.world_index = world_index
        self.leader_epoch = core.state.leader_epoch
        self.leadership: Leadership | None = core
        self.error_code: ErrorCode | None = None
        self.resigned = False
        self.log = LedLog(broker.disk.logs[world_index], partial(broker.sync, world_index))
        self._commits: list[tuple[int, Committed]] = []

    @property
    def role(self) -> "LedPartition":
        """What knows the leadership: here the partition itself."""
        return self

    @property
    def serving_log(self) -> LedLog | None:
        """The log, while this broker leads."""
        return None if self.resigned else self.log

    @property
    def last_stable_offset(self) -> int:
        """Up to where readers of committed records may read."""
        assert self.leadership is not None
        high_watermark = self.leadership.high_watermark
        return self.log.last_stable_offset(high_watermark) if self.log.has_transactions else high_watermark  # type: ignore[misc]  # as of a log

    def when_committed(self, done: Committed) -> None:
        """Call `done` once all that is there now is on every replica that counts."""
        end_offset = self.log.log_end_offset
        if self.leadership is None:
            done(LedElsewhere("another broker leads"))
        elif self.leadership.high_watermark >= end_offset:
            done(None)
        else:
            self._commits.append((end_offset, done))

    def advanced(self) -> None:
        """Tell those whose records are on every replica that counts by now."""
        assert self.leadership is not None
        while self._commits and self._commits[0][0] <= self.leadership.high_watermark:
            self._commits.pop(0)[1](None)

    def resign(self) -> None:
        """Lead no more."""
        self.resigned, self.leadership = True, None
        self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        commits, self._commits = self._commits, []
        for _, done in commits:
            done(LedElsewhere("another broker leads"))


class Table:
    """What this broker leads of the topics that transactions are about: this is its table of partitions."""

    def __init__(self, broker: "Broker", places: dict[int, TopicPartition]) -> None:
        self._broker = broker
        self._places = places
        self._led: dict[TopicPartition, LedPartition] = {}

    def begin(self, world_index: int, core: Leadership) -> None:
        """Lead a partition from now on."""
        place = self._places.get(world_index)
        if place is not None:
            self._led[place] = LedPartition(self._broker, world_index, place, core)

    def end(self, world_index: int) -> None:
        """Lead it no more."""
        place = self._places.get(world_index)
        partition = None if place is None else self._led.pop(place, None)
        if partition is not None:
            partition.resign()

    def advanced(self, world_index: int) -> None:
        """More of a partition is on every replica that counts."""
        place = self._places.get(world_index)
        partition = None if place is None else self._led.get(place)
        if partition is not None:
            partition.advanced()

    def peek(self, topic: str, index: int) -> LedPartition | None:
        """Return the partition where this broker leads it."""
        return self._led.get((topic, index))

    def leads(self, topic: str, index: int) -> bool:
        """Whether this broker leads it."""
        return (topic, index) in self._led

    def serving(self, topic: str, index: int) -> LedPartition:
        """Return the partition. Raises: ApiError where this broker does not lead it."""
        partition = self.peek(topic, index)
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    async def opened(self, topic: str, index: int) -> LedPartition:
        """Return the partition. Raises: StorageError where this broker does not lead it."""
        partition = self.peek(topic, index)
        if partition is None:
            raise LedElsewhere("another broker leads")
        return partition

    async def committed(self, partition: LedPartition) -> None:
        """Return once all that it has is on every replica that counts. Raises: StorageError."""
        until = Until()
        partition.when_committed(until.put)
        error: StorageError | None = await until
        if error is not None:
            raise error

    async def between_writes(self, _partition: LedPartition, action: Callable[[], None]) -> None:
        """Run `action`: writes take no time."""
        action()


def places_of(state_index: int, written: Sequence[int]) -> dict[int, TopicPartition]:
    """Return where the model's partitions are, by their topics' names."""
    places = {state_index: (TRANSACTIONS_TOPIC, 0), state_index + 1: (OFFSETS_TOPIC, 0)}
    return places | {world_index: (WRITTEN, index) for index, world_index in enumerate(written)}


def batches_of(log: MemoryLog) -> Iterator[tuple[int, bytes]]:
    """Yield the offsets of batches that are of transactions, and the batches."""
    for offset, record in enumerate(log.records):
        if isinstance(record.value, bytes):
            yield offset, record.value
