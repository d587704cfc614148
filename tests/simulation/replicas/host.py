"""One life of a broker that follows: real table, replicas, flusher, journal and logs on a virtual disk.

What is here is what waits: a round of the loop, a writer's thread and the thread that opens and deletes logs
each take a step when the seed says so. Nothing decides.
"""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

import trio

from kohort.broker.cluster.appending import Appending
from kohort.broker.cluster.folder_life import FolderLife
from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import WRITERS, Flusher, Job
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.partitions.sync_timers import SyncTimers
from kohort.broker.partitions.test_support import FakeMetadata
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.turns import NoTurns
from kohort.broker.runtime.workers import DaemonThreads
from kohort.storage import DataDirectory, StorageError
from kohort.storage.journal import Journal
from kohort.storage.layout import log_id_of
from kohort.storage.memory_filesystem import MemoryFileSystem

ROOT = Path("/data")
NODE_ID = 1
JOURNAL_BYTES = 768
INLINE_SHARE = 0.6

T = TypeVar("T")
Action = Callable[[], None]


class SteppedFlusher(Flusher):
    """The real one; the seed says which job a writer's thread gets, and when that has written it."""

    def __init__(self, host: "Host", journal: Journal) -> None:
        super().__init__(host, PartitionCounters(), journal, DaemonThreads("flush", WRITERS))
        self._host = host
        self.jobs: list[Job] = []

    def _fits_inline(self, job: Job) -> bool:
        return self._host.random.random() < INLINE_SHARE

    def _hand_over(self, job: Job) -> None:
        self.jobs.append(job)

    def write_one(self) -> None:
        """Write the oldest job, as a writer's thread does, and tell the loop."""
        job = self.jobs.pop(0)
        job.run(self._journal)
        self._host.post(lambda: self._finish(job))

    def _contain(self, what: str) -> None:
        raise  # noqa: PLE0704  # What a rule says of it is not for the broker to survive.


class ReadableFiles(LogFiles):
    """The real ones, some of which can't be read."""

    host: "Host"

    def open(self, partition: Partition, *, again: bool = False) -> OpenedLog:
        """Return the log, as a disk without that sector would. Raises: StorageError."""
        if partition.topic in self.host.unreadable:
            raise StorageError(f"{partition.topic}-0 cannot be read")
        return super().open(partition, again=again)


class SteppedQueue:
    """A thread whose work is done when the seed says so."""

    def __init__(self) -> None:
        self.work: list[Action] = []

    def submit(self, function: Callable[..., T], /, *arguments: object) -> "Future[T]":
        """Do it later."""
        future: Future[T] = Future()
        self.work.append(lambda: future.set_result(function(*arguments)))
        return future

    def shutdown(self, **_options: bool) -> None:
        """Drop what has not begun."""
        self.work.clear()


class Host:
    """A broker's life. It is a `Loop`, and has the `Workers`."""

    def __init__(
        self, file_system: MemoryFileSystem, metadata: FakeMetadata, clock: ManualClock, random: Random
    ) -> None:
        """Open the folder; nothing is read of the logs yet. Raises: StorageError."""
        self.random = random
        self.clock = clock
        self.posted: list[Action] = []
        self.file_work = SteppedQueue()
        self.timers = Timers()
        self.metadata = metadata
        metadata._watchers.clear()
        self.data = DataDirectory.open(ROOT, file_system)
        self.data.write_meta("cluster", NODE_ID)
        self.journal = Journal(file_system, ROOT, JOURNAL_BYTES)
        self.flusher = SteppedFlusher(self, self.journal)
        current = CurrentConfig(BrokerConfig(node_id=NODE_ID))
        self.replicas = Replicas(
            NODE_ID,
            clock=clock,
            loop=self,
            lag_ms_max=lambda: 1_000,
            may_follow=lambda state: True,
            check=lambda: True,
        )
        timers = SyncTimers(self.timers, clock, self.flusher.request)
        self.flusher.on_unsynced = timers.written
        self.unsynced = Unsynced(self._note_unsynced, self._note_failed)
        self.flusher.may_leave_unsynced = self.unsynced.may_leave
        self.files = ReadableFiles(self.data, self.journal)
        self.files.host = self
        self.table = PartitionTable(
            cast(Any, metadata),
            current,
            NODE_ID,
            files=self.files,
            flusher=self.flusher,
            timers=self.timers,
            clock=clock,
            loop=self,
            workers=cast(Any, self),
            may_lead=lambda key, state: True,
            replicas=self.replicas,
            unsynced=self.unsynced,
            on_lax=timers.changed,
            on_lost_tail=self._lost_tail,
        )
        self.appending = Appending(self.table, self.flusher, clock, NoTurns())
        self.life: FolderLife
        self.unreadable: set[str] = set()
        """Topics whose logs can't be opened: the disk has lost a sector."""
        self.has_begun_anew = False
        self._is_to_begin_anew = False

    def begin(self, last_registered: UUID | None, boot_id: str) -> None:
        """Do what `Broker.start` does. Raises: StorageError."""
        self.life = FolderLife(self.data, last_registered, boot_id)
        for partition in self.table:
            if partition.replicated or not self.files.is_sound(partition):
                partition.open()
        self.life.begin(is_short=self.table.opening.is_short)
        self.table.opening.reports_lost_tails = True
        offline = {log_id_of(each.topic_id, each.index) for each in self.table if each.offline is not None}
        self.journal.forget(but=offline)
        self.run_posted()

    def _lost_tail(self, partition: Partition) -> None:
        """Do what `ClusterMember.lost_tail` does: the folder is another one."""
        self.has_begun_anew = self._is_to_begin_anew = True

    def _renew(self) -> None:
        try:
            self.life.renew()
        except StorageError:
            return  # It is tried again.
        self._is_to_begin_anew = False

    def _note_unsynced(self, has_unsynced: bool) -> None:
        self.life.note_unsynced(has_unsynced)

    def _note_failed(self) -> None:
        try:
            self.life.note_failed_sync()
        except StorageError:
            self.has_begun_anew = True  # Where the disk takes no word of it, a kill may go unnoticed.
            raise

    # -- what the parts ask of the machine ------------------------------------------------------------------

    is_in_round = False

    def wake(self) -> None:
        """Nothing: the seed says when a round begins."""

    def post(self, action: Action) -> None:
        """Run it in the next round."""
        self.posted.append(action)

    def queue(self, name: str) -> SteppedQueue:
        """Return the thread that opens and deletes logs."""
        return self.file_work

    def event(self) -> trio.Event:
        """Return something to wait for."""
        return trio.Event()

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Do it at once."""
        return function(*arguments)

    def limiter(self, threads: int) -> object:
        """Return anything: nobody waits for a thread."""
        return threads

    # -- steps ----------------------------------------------------------------------------------------------

    def run_posted(self) -> None:
        """Do what threads have handed to the loop."""
        while self.posted:
            self.posted.pop(0)()

    def round(self) -> None:
        """Do what the reactor does in a round."""
        self.run_posted()
        if self._is_to_begin_anew:
            self._renew()
        self.timers.run_due(self.clock.now_ms())
        self.flusher.start_round()

    def work(self) -> None:
        """Let one of the threads do something."""
        if self.flusher.jobs and (not self.file_work.work or self.random.random() < 0.5):
            self.flusher.write_one()
        elif self.file_work.work:
            self.file_work.work.pop(0)()

    def stop(self) -> None:
        """Do what `Broker.close` does. Raises: StorageError."""
        while self.flusher.jobs:
            self.flusher.jobs.pop(0).run(self.journal)
        self.table.close()
        self.data.close(when_sound=self.journal.close)

    def die(self) -> None:
        """Let another process have the folder."""
        self.data._lock = None
