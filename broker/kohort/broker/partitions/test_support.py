"""A data plane without sockets, for tests: real logs in a folder, time and flushes moved by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
import trio

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.handlers.data.record_checks import RecordChecks
from kohort.broker.metadata import Mutation, PartitionState, Snapshot, TopicState
from kohort.broker.partitions import Partition, PartitionTable, ProducerIds
from kohort.broker.partitions.assignment import MayLead
from kohort.broker.partitions.cleaner import LogCleaner
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import WRITERS, Flusher, Job
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.produced import Appended
from kohort.broker.partitions.retention import LogRetention
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import DaemonThreads, TrioWorkers
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.permissions import ALLOW_ALL
from kohort.broker.transport.request import ANONYMOUS, ReceivedRequest, Request
from kohort.protocol.records import build_batch, validate_produced
from kohort.protocol.records.work_budget import WorkBudget
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from kohort.storage import DataDirectory, FileSystem, OsFileSystem, PartitionLog, StorageError
from kohort.storage.journal import Journal
from kohort.storage.memory_filesystem import MemoryFileSystem
from tests.left_open import goes_with_the_test

NODE_ID = 1


class FakeMetadata:
    """A store whose changes are at once."""

    def __init__(self) -> None:
        self._snapshot = Snapshot(0, "cluster", NODE_ID)
        self._watchers: list[Callable[[Snapshot, Snapshot], None]] = []
        self._next_producer_id = 0
        self.allocations = 0

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def watch(self, watcher: Callable[[Snapshot, Snapshot], None]) -> Callable[[], None]:
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def apply(self, mutation: Mutation) -> None:
        before, self._snapshot = self._snapshot, self._snapshot.after(mutation)
        for watcher in tuple(self._watchers):
            watcher(before, self._snapshot)

    async def allocate_producer_ids(self, count: int = 2) -> range:
        first = self._next_producer_id
        self._next_producer_id += count
        self.allocations += 1
        return range(first, first + count)


class BareHost:
    """Opens logs, and does nothing else for its partitions."""

    reports_lost_tails = False

    def __init__(self, open_log: Callable[[Partition], PartitionLog]) -> None:
        self.open = open_log

    def open_log(self, partition: Partition, /) -> OpenedLog:
        return OpenedLog(self.open(partition))

    def log_opened(self, partition: Partition, /) -> None:
        """Nothing: no role is to be taken."""

    def log_failed(self, partition: Partition, /) -> None:
        """Nothing: the test opens it again."""

    def lost_tail(self, partition: Partition, /) -> None:
        """Nothing: no metadata are to be raised."""

    def epoch_behind(self, partition: Partition, epoch: int, /) -> None:
        """Nothing: no metadata are to be raised."""

    def synced(self, partition: Partition, /) -> None:
        """Nothing: no role has a high watermark."""


class HeldFlusher(Flusher):
    """The real one: its rounds begin when a test says so, and it writes in the caller's thread."""

    def __init__(self, counters: PartitionCounters, journal: Journal) -> None:
        loop = cast(Loop, SimpleNamespace(is_in_round=False, wake=lambda: None))
        super().__init__(loop, counters, journal, DaemonThreads("flush", WRITERS))
        self.immediate = False

    @property
    def waiting(self) -> dict[Partition, list[Callable[[StorageError | None], None]]]:
        return self._waiting

    def request(self, partition: Partition, done: Callable[[StorageError | None], None]) -> None:
        super().request(partition, done)
        if self.immediate:
            self.flush()

    def flush(self) -> None:
        self.start_round()

    def _hand_over(self, job: Job) -> None:
        job.run(self._journal)
        self._finish(job)


class FakeConnection:
    """Keeps the answers."""

    def __init__(self) -> None:
        self.answers: list[Message | None] = []
        self.closed = False
        self.on_close: list[Callable[[], None]] = []
        self.closed = False
        self.client_host = "/127.0.0.1"
        self.principal = ANONYMOUS
        self.listener = 0
        self.permissions = ALLOW_ALL

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        assert request.answer is None
        request.answer = (
            [message.encode(request.version)] if not _has_ranges(message, request.version) else []
        )
        self.answers.append(message)

    def abandon(self, request: ReceivedRequest) -> None:
        request.answer = []
        self.answers.append(None)

    def close(self) -> None:
        self.closed = True
        for action in tuple(self.on_close):
            action()


def _has_ranges(message: Message, version: int) -> bool:
    return any(type(part) is not bytes for part in message.encode_parts(version))


class World:
    """One broker's data plane."""

    def __init__(
        self,
        folder: Path,
        filesystem: FileSystem | None = None,
        metadata: FakeMetadata | None = None,
        may_lead: MayLead | None = None,
        **config: Any,
    ) -> None:
        self.clock = ManualClock()
        self.timers = Timers()
        self.metadata = metadata or FakeMetadata()
        self.connection = FakeConnection()
        self.posted: list[Callable[[], None]] = []
        self.config = BrokerConfig(**config)
        self.current = CurrentConfig(self.config)
        self.filesystem = filesystem or OsFileSystem()
        self.data = DataDirectory.open(folder, self.filesystem)
        self.counters = PartitionCounters()
        self.journal = Journal(self.filesystem, folder)
        self.flusher = HeldFlusher(self.counters, self.journal)
        self.workers = TrioWorkers(cast(trio.Nursery, None))  # Nothing in here spawns a task.
        self.files = LogFiles(self.data, self.journal)
        self.table = PartitionTable(
            cast(Any, self.metadata),
            self.current,
            NODE_ID,
            files=self.files,
            flusher=cast(Flusher, self.flusher),
            timers=self.timers,
            clock=self.clock,
            loop=self,
            workers=self.workers,
            may_lead=may_lead,
        )
        self.checks = RecordChecks(self, self.workers)
        goes_with_the_test(self)
        self.family = Data(
            self.table,
            cast(Flusher, self.flusher),
            FetchSessions(self.config.max_incremental_fetch_session_cache_slots),
            self.checks,
            ProducerIds(cast(Any, self.metadata)),
            self.current,
            self.timers,
            self.clock,
            self.counters,
            TransportCounters(),
        )

    is_in_round = False

    def wake(self) -> None:
        """Do nothing: the test itself runs the next step."""

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)

    def cleaner(self) -> LogCleaner:
        return LogCleaner(
            self.table,
            self.data,
            self.current,
            clock=self.clock,
            counters=self.counters.cleaning,
            workers=self.workers,
        )

    def retention(self) -> LogRetention:
        return LogRetention(
            self.table,
            self.current,
            clock=self.clock,
            counters=self.counters.cleaning,
            workers=self.workers,
        )

    def create(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        epoch: int = 0,
        topic_id: UUID | None = None,
    ) -> UUID:
        """Create a topic, or give an existing one more partitions."""
        states = tuple(
            PartitionState(index, NODE_ID, epoch, (NODE_ID,), (NODE_ID,)) for index in range(partitions)
        )
        topic_id = topic_id or uuid4()
        self.metadata.apply(Mutation(put=(TopicState(name, topic_id, states, configs or {}),)))
        return topic_id

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        topic = self.metadata.snapshot().topics[name]
        self.metadata.apply(Mutation(put=(msgspec.structs.replace(topic, configs=configs),)))

    def delete(self, name: str) -> None:
        self.metadata.apply(Mutation(delete=(name,)))

    def finish_checks(self) -> None:
        """Wait for the thread that looks into batches, and run what it has handed to the loop."""
        self.checks._queue.submit(int).result()
        self.run_posted()

    def close(self) -> None:
        self.checks.close()
        self.table.close()
        self.data.close()

    def let_go(self) -> None:
        """End the threads and close the files as they are."""
        self.checks.close()
        self.table._file_work.shutdown(cancel_futures=True)
        for log in self.data.records.open_logs().values():
            for segment in log.segments:
                segment.close()
        if isinstance(self.filesystem, MemoryFileSystem):
            self.filesystem.close()

    def reopen_failed(self) -> None:
        """Let the next attempts to open failed logs be made, and wait for their outcome."""
        self.run_posted()
        self.flusher.flush()
        self.advance(10_000)
        self.run_posted()

    def run_posted(self) -> None:
        """Wait for the worker, and run what it has handed to the loop."""
        self.finish_file_work()
        posted, self.posted[:] = self.posted[:], []
        for action in posted:
            action()

    def finish_file_work(self) -> None:
        """Wait until files have been deleted or opened as far as was asked for."""
        self.table._file_work.submit(int).result()

    def crash(self) -> None:
        """Let another world have the folder, without a clean stop."""
        self.table.close()
        self.data._lock = None

    def partition(self, name: str, index: int = 0) -> Partition:
        partition = self.table.get(name, index)
        assert partition is not None
        return partition

    def request(self, api: str, version: int | None = None) -> Request:
        found = BY_NAME[api]
        highest = found.versions.highest
        return ReceivedRequest(
            cast(Connection, self.connection), found, highest if version is None else version, 1, "test"
        )

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timers.run_due(self.clock.now_ms())

    def stage(self, name: str, index: int = 0, *, value: bytes = b"value") -> None:
        """Append one record that is not committed."""
        partition = self.partition(name, index)
        partition.append_own(build_batch([(self.clock.now_ms(), b"key", value, ())]))

    def fill(self, name: str, index: int = 0, *, batches: int = 1, value: bytes = b"value") -> None:
        """Append committed batches of one record each, as the broker's own."""
        partition = self.partition(name, index)
        for _ in range(batches):
            self.stage(name, index, value=value)
        self.flusher.request(partition, lambda error: None)
        self.flusher.flush()


def append_produced(partition: Partition, batch: bytes | memoryview, now_ms: int) -> Appended:
    """Append a client's batch as a Produce request does."""
    return partition.append(
        partition.prepare(batch, validate_produced(batch), now_ms, WorkBudget.full()), now_ms
    )


def batch_of(
    *values: bytes, timestamp_ms: int = 1_700_000_000_000, key: bytes | None = None, **numbers: Any
) -> bytes:
    """Return a batch as a producer sends it."""
    return build_batch([(timestamp_ms, key, value, ()) for value in values], **numbers)
