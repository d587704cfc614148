"""The group commit: everything staged in a round of the loop is written, and synced, together.

Small batches are synced through the journal, one sync for all logs; large ones in their logs.

Whoever stages into a partition's log asks for a flush; the flusher writes each asked-for log once per
round, and tells all that waited. A small round is written in the loop itself, since a thread hop costs
more than a quick disk needs; a large one, or one on a disk that has shown itself slow, goes to a worker
thread, and the partitions in it wait for no others. Kafka's counterpart is a purgatory of produce
requests, and a flush that it leaves to the page cache by default.
"""

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import structlog

from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.loop import Loop
from kohort.storage import StorageError
from kohort.storage.journal import Entry, Journal

Done = Callable[[StorageError | None], None]
"""Called in the loop's thread when what was staged is as durable as its topic asks, or has failed."""

JOURNALED_BYTES_MAX = 64 * 1024
INLINE_BYTES_MAX = 128 * 1024
INLINE_SYNC_SECONDS_MAX = 0.0006  # The mean time of a sync up to which the loop waits for it itself.
MEAN_WEIGHT = 0.1
SAMPLE_SECONDS_MAX = 0.002  # One sync that took long, as the journal's first does, says little of the next.
WRITERS = 2

log = structlog.get_logger("kohort.flush")


class Job:
    """The partitions that are written together, and how that went for each."""

    __slots__ = ("errors", "journaled", "logs", "partitions", "seconds", "size_bytes", "syncs")

    def __init__(self, partitions: list[Partition], *, journaled: bool) -> None:
        self.partitions = partitions
        self.logs = [partition.log for partition in partitions]  # A partition may be given another meanwhile.
        self.journaled = journaled
        self.syncs = [partition.wants_sync() for partition in partitions]
        self.size_bytes = sum(log.staged_bytes for log in self.logs)
        self.errors: list[StorageError | None] = []
        self.seconds = 0.0

    def run(self, journal: Journal) -> None:
        """Write every partition; a failure of one is noted and does not stop the others."""
        begin = time.perf_counter()
        entries: list[Entry] = []
        for partition, log, sync in zip(self.partitions, self.logs, self.syncs, strict=True):
            by_journal = self.journaled and partition.durable
            if by_journal:
                entries.append(Entry(partition.topic_id, partition.index, log.staged_batches()))
            try:
                log.write(sync=sync and not by_journal)
            except StorageError as error:
                self.errors.append(error)
                if by_journal:
                    entries.pop()
            else:
                self.errors.append(None)
        if entries:
            self._append(journal, entries)
        self.seconds = time.perf_counter() - begin

    def _append(self, journal: Journal, entries: list[Entry]) -> None:
        try:
            journal.append(entries)
        except StorageError as failure:
            log.error("the journal failed; logs are synced one by one", error=str(failure))
            self._sync_logs()
            return
        for partition, written, error in zip(self.partitions, self.logs, self.errors, strict=True):
            if error is None and partition.durable:
                written.became_durable(written.written_offset)

    def _sync_logs(self) -> None:
        """Sync each log that was written in the journal's stead: nobody is refused for the journal's sake."""
        for place, (partition, written) in enumerate(zip(self.partitions, self.logs, strict=True)):
            if self.errors[place] is None and partition.durable:
                try:
                    written.write(sync=True)
                except StorageError as error:
                    self.errors[place] = error


class Flusher:
    """Flushes for everybody. Its methods belong to the loop's thread, except where a worker writes."""

    def __init__(self, loop: Loop, counters: PartitionCounters, journal: Journal) -> None:
        self._loop = loop
        self._journal = journal
        self._journaled: dict[Partition, None] = {}  # Those whose newest batches only the journal has synced.
        self._counters = counters
        self._waiting: dict[Partition, list[Done]] = {}
        self._under_way: dict[Partition, list[Done]] = {}
        self._journaling = 0  # How many jobs under way have, or may have, entries in the journal.
        self._prepare: list[Callable[[], None]] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._writers: list[Thread] = []
        self._mean_sync_seconds = 0.0
        self.on_unsynced: Callable[[Partition], None] = lambda partition: None

    def request(self, partition: Partition, done: Done) -> None:
        """Flush what is staged in `partition.log` in this round; then call `done`."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            self._waiting[partition] = [done]
            self._loop.wake()
        else:
            waiting.append(done)

    def prepare(self, action: Callable[[], None]) -> None:
        """Let `action` stage and request at the end of this round: many small records in one batch."""
        self._prepare.append(action)
        self._loop.wake()

    @property
    def busy(self) -> bool:
        """Whether anything waits for a flush or is being flushed."""
        return bool(self._waiting or self._under_way or self._prepare)

    def start_round(self) -> None:
        """Begin the flush of everything that was asked for; small rounds end in here as well."""
        while self._prepare or self._waiting:
            preparing, self._prepare = self._prepare, []
            for action in preparing:
                action()
            ready = self._take_ready()
            if not ready:
                return
            job = Job(ready, journaled=self._fits_journal(ready))
            self._journaling += job.journaled
            if self._fits_inline(job):
                job.run(self._journal)
                self._finish(job)
            else:
                self._hand_over(job)

    def _take_ready(self) -> list[Partition]:
        """Take the partitions that no worker writes just now: one log is never written twice at once."""
        ready = [partition for partition in self._waiting if partition not in self._under_way]
        for partition in ready:
            self._under_way[partition] = self._waiting.pop(partition)
        return ready

    def _fits_journal(self, partitions: list[Partition]) -> bool:
        """Return whether the journal takes a round; a large one is as quickly synced log by log."""
        size_bytes = sum(partition.log.staged_bytes for partition in partitions if partition.durable)
        if not size_bytes or size_bytes > JOURNALED_BYTES_MAX:
            return False
        if not self._journal.has_room(size_bytes, len(partitions)):
            self._checkpoint()
        return self._journal.has_room(size_bytes, len(partitions))

    def _checkpoint(self) -> None:
        """Sync every log that the journal stands in for, and let it begin again."""
        for partition in list(self._journaled):
            if partition in self._under_way:
                continue  # A worker syncs it, or this round does: the next round will find it done.
            try:
                if not partition.deleted:
                    partition.log.write(sync=True)
            except StorageError as error:
                self._failed(partition, error)
            else:
                del self._journaled[partition]
        if not self._journaled and not self._journaling:
            self._journal.restart()

    def _fits_inline(self, job: Job) -> bool:
        if job.size_bytes > INLINE_BYTES_MAX:
            return False
        return self._mean_sync_seconds <= INLINE_SYNC_SECONDS_MAX or not any(job.syncs)

    def _hand_over(self, job: Job) -> None:
        if not self._writers:
            self._writers = [Thread(target=self._work, name=f"flush-{number}") for number in range(WRITERS)]
            for writer in self._writers:
                writer.daemon = True  # A write that hangs in a dead disk shall not keep the process alive.
                writer.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._journal)
            self._loop.post(lambda job=job: self._finish(job))  # type: ignore[misc]  # a bound default

    def _finish(self, job: Job) -> None:
        self._note_time(job)
        self._journaling -= job.journaled
        for partition, error, synced in zip(job.partitions, job.errors, job.syncs, strict=True):
            waiting = self._under_way.pop(partition)
            if error is not None:
                self._failed(partition, error)
            else:
                if job.journaled and partition.durable:
                    self._journaled[partition] = None
                else:
                    self._journaled.pop(partition, None)
                if synced:
                    partition.sync_due = False
                else:
                    self.on_unsynced(partition)
                partition.committed()
            for done in waiting:
                done(error)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        self._counters.flush_failures += 1
        log.error("a flush failed", topic=partition.topic, partition=partition.index, error=str(error))
        if partition in self._journaled:
            del self._journaled[partition]
            self._recall(partition)
        partition.failed(error)

    def _recall(self, partition: Partition) -> None:
        """Have the journal keep what the log may lack when it is opened again."""
        try:
            self._journal.recall(partition.topic_id, partition.index)
        except StorageError as error:
            log.error("the journal cannot be read", error=str(error))

    def _note_time(self, job: Job) -> None:
        self._counters.flush_seconds.add(job.seconds)
        syncs = sum(job.syncs)
        if syncs and job.size_bytes <= INLINE_BYTES_MAX:  # A large write says little of a sync.
            mean = min(job.seconds / syncs, SAMPLE_SECONDS_MAX)
            self._mean_sync_seconds += MEAN_WEIGHT * (mean - self._mean_sync_seconds)

    def close(self) -> None:
        """End the workers once they have written what was handed to them. Blocks."""
        for _ in self._writers:
            self._jobs.put(None)
        for writer in self._writers:
            writer.join()
        self._writers = []
