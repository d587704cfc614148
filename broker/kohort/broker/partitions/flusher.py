"""The group commit: everything staged in a round of the loop is written, and synced, together.

Small batches are synced through the journal, one sync for all logs; large ones in their logs.

A caller that stages into a partition's log requests a flush; the flusher writes each requested log once per
round, and calls all waiters. A small round is written in the loop itself: a thread costs more than a
quick disk. A large round, or one on a slow disk, goes to a worker thread.
"""

import time
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.workers import Writers
from kohort.storage import PartitionLog, StorageError
from kohort.storage.journal import Journal, Written
from kohort.storage.layout import LogId
from kohort.storage.staging import Staged

Done = Callable[[StorageError | None], None]
"""Called in the loop's thread when the staged batches are as durable as their topic asks, or have failed."""

JOURNALED_BYTES_MAX = 64 * 1024
INLINE_BYTES_MAX = 128 * 1024
INLINE_LOGS_MAX = 8  # The maximum number of logs that the loop itself syncs so that the journal can restart.
INLINE_SYNC_SECONDS_MAX = 0.0012  # The mean time of a sync up to which the loop waits for it itself.
MEAN_WEIGHT = 0.1
SAMPLE_SECONDS_MAX = 0.002  # One sync that took long, as the journal's first does, says little of the next.
WRITERS = 2

log = structlog.get_logger("kohort.flush")


class LogFlush(msgspec.Struct, frozen=True, gc=False):
    """The work of a job for one partition: decided once, in the loop's thread, and never read again."""

    partition: Partition
    log: PartitionLog  # A partition may be given another meanwhile.
    staged: Staged
    sync: bool
    """Whether it is to be on the disk when the job ends, with all before it."""
    journaled: bool
    """Whether the sync of the journal makes it durable."""


class Job:
    """Batches that are written together, and the result for each log."""

    __slots__ = ("errors", "flushes", "is_handed_over", "journaled", "seconds", "size_bytes", "syncs")

    def __init__(self, flushes: list[LogFlush]) -> None:
        self.flushes = flushes
        self.journaled = False
        self.size_bytes = 0
        for flush in flushes:
            self.size_bytes += flush.staged.size_bytes
            if flush.journaled:
                self.journaled = True
        self.errors: list[StorageError | None] = [None] * len(flushes)
        self.syncs = 0  # How many it took.
        self.is_handed_over = False  # To a worker.
        self.seconds = 0.0

    def run(self, journal: Journal) -> None:
        """Write every log; a failure of one is noted and does not stop the others.

        A bug in it fails its partitions, not the thread.
        """
        begin = time.perf_counter()
        written: list[Written] = []
        try:
            for place, flush in enumerate(self.flushes):
                staged, journaled = flush.staged, flush.journaled
                try:
                    flush.log.write_staged(staged, sync=flush.sync and not journaled)
                except StorageError as error:
                    self.errors[place] = error
                else:
                    if journaled:
                        written.append(Written(flush.log, staged.batches))
                    else:
                        self.syncs += flush.sync
            if written:
                self._append(journal, written)
        except Exception as error:  # A supervisor: waiters must not get a success.
            log.exception("a flush met an impossible state")
            self._fail(StorageError(f"a flush met an impossible state: {error!r}"))
        self.seconds = time.perf_counter() - begin

    def _append(self, journal: Journal, written: list[Written]) -> None:
        self.syncs += 1
        try:
            journal.append(written)
        except StorageError as failure:
            log.error("the journal failed; logs are synced one by one", error=str(failure))
            self._sync_logs()

    def _sync_logs(self) -> None:
        """Sync each log that was written instead of the journal: an error of the journal fails no log."""
        for place, flush in enumerate(self.flushes):
            if flush.journaled and self.errors[place] is None:
                self.syncs += 1
                try:
                    flush.log.sync()
                except StorageError as error:
                    self.errors[place] = error

    def _fail(self, error: StorageError) -> None:
        """Mark all of it as failed."""
        self.errors = [error] * len(self.flushes)


class Flusher:
    """Flushes for all partitions. Its methods belong to the loop's thread, except where a worker writes."""

    def __init__(
        self,
        loop: Loop,
        counters: PartitionCounters,
        journal: Journal,
        writers: Writers,
        *,
        on_unsynced: Callable[[Partition], None] = lambda partition: None,
        may_leave_unsynced: Callable[[Partition], bool] = lambda partition: True,
    ) -> None:
        """`writers` are `WRITERS` threads.

        The flusher calls `may_leave_unsynced` before each write without a sync, and `on_unsynced` after it.
        """
        self._loop = loop
        self._journal = journal
        self._journaled: dict[LogId, Partition] = {}  # Logs of which only the journal has all synced.
        self._counters = counters
        self._waiting: dict[Partition, list[Done]] = {}
        self._under_way: dict[Partition, list[Done]] = {}
        self._journal_syncs = 0  # How many jobs workers sync in the journal just now.
        self._journaling = 0  # The number of running jobs that have, or may have, entries in the journal.
        self._prepare: list[Callable[[], None]] = []
        self._to_unname: list[tuple[LogId, Done]] = []  # The journal is to be empty for a moment.
        self._rounds_without_journal = 0
        self._handed_over: dict[Job, float] = {}  # To the writers, and when.
        self._writers = writers
        self._mean_sync_seconds = 0.0
        self.on_unsynced = on_unsynced
        self.may_leave_unsynced = may_leave_unsynced

    def request(self, partition: Partition, done: Done) -> None:
        """Flush the staged batches of `partition.log` in this round; then call `done`."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            self._waiting[partition] = [done]
            if not self._loop.is_in_round:
                self._loop.wake()
        else:
            waiting.append(done)

    def request_commit(self, partition: Partition, done: Done) -> None:
        """Flush the staged batches; then call `done` when every counting replica has them, too."""
        leadership = partition.leadership
        if leadership is None:
            waiting = self._waiting.get(partition)  # As `request`, a call less: most commits are these.
            if waiting is None:
                self._waiting[partition] = [done]
                if not self._loop.is_in_round:
                    self._loop.wake()
            else:
                waiting.append(done)
            return
        end_offset = partition.log.log_end_offset

        def flushed(error: StorageError | None) -> None:
            if error is None and partition.leadership is not leadership:
                error = partition.led_elsewhere()
            if error is None:
                partition.when_committed(end_offset, done)
            else:
                done(error)

        self.request(partition, flushed)

    def prepare(self, action: Callable[[], None]) -> None:
        """Let `action` stage and request at the end of this round: many small records in one batch."""
        self._prepare.append(action)
        if not self._loop.is_in_round:
            self._loop.wake()

    def is_waiting(self, partition: Partition) -> bool:
        """Whether a flush of the partition is requested or running."""
        return partition in self._waiting or partition in self._under_way

    @property
    def busy(self) -> bool:
        """Whether anything waits for a flush or is being flushed."""
        return bool(self._waiting or self._under_way or self._prepare or self._to_unname)

    def is_asked(self) -> bool:
        """Return whether the round that is about to begin has something to write."""
        return bool(self._waiting or self._prepare or self._to_unname)

    def start_round(self) -> None:
        """Begin the flush of everything that was asked for; small rounds end in here as well."""
        while self._prepare or self._waiting:
            preparing, self._prepare = self._prepare, []
            for action in preparing:
                action()
            ready = self._take_ready()
            if not ready:
                break
            self._begin(self._job_for(ready))
        if self._to_unname:
            self._unname()

    def is_named(self, log_id: LogId) -> bool:
        """Return whether a start would find batches of a log in the journal."""
        return self._journal.may_name(log_id)

    def when_unnamed(self, log_id: LogId, done: Done) -> None:
        """Call `done` once the journal has nothing of a log that is to be cut, removed or replaced.

        After a crash the journal would restore the removed batches, or overwrite newer ones. Until it is
        empty it accepts nothing new. `done` gets an error if it has failed, and the disk accepts no other.
        The caller has the log open, or does not need it any more: entries kept for its reopening are dropped.
        """
        self._journal.drop(log_id)
        if not self._journal.may_name(log_id):
            done(None)
            return
        self._to_unname.append((log_id, done))
        if not self._loop.is_in_round:
            self._loop.wake()

    def _unname(self) -> None:
        """Empty the journal, unless a worker has to end first, and call the waiters."""
        asking = self._to_unname
        try:
            if self._begin_lap():
                self._journal.wipe()
            elif self._under_way or self._journaling:
                return  # The next round comes when these are done.
        except StorageError as failure:
            log.error("the journal cannot be emptied", error=str(failure))
        self._to_unname = []
        for log_id, done in asking:
            error: StorageError | None = None
            if self._journal.may_name(log_id):
                error = self._journal.failure or StorageError("the journal cannot be emptied")
            try:
                done(error)
            except Exception:  # noqa: BLE001  # A supervisor: others do not get one waiter's error.
                self._contain("whoever waited for an empty journal met an impossible state")

    def _begin(self, job: Job, *, loop_may_wait: bool = True) -> None:
        """Start the job, in the loop itself if that is fast."""
        self._journaling += job.journaled
        if loop_may_wait and self._fits_inline(job):
            job.run(self._journal)
            self._finish(job)
        else:
            job.is_handed_over = True
            self._journal_syncs += job.journaled
            self._hand_over(job)

    def _take_ready(self) -> list[Partition]:
        """Take the partitions that no worker writes just now: one log is never written twice at once.

        While a worker syncs the journal, further journal writes wait: then all that arrive
        meanwhile share the next sync.
        """
        if not self._under_way and not self._journal_syncs:
            self._under_way, self._waiting = self._waiting, self._under_way
            return list(self._under_way)
        ready = [
            partition
            for partition in self._waiting
            if partition not in self._under_way and not (self._journal_syncs and _fits_one_entry(partition))
        ]
        for partition in ready:
            self._under_way[partition] = self._waiting.pop(partition)
        return ready

    def _job_for(self, partitions: list[Partition]) -> Job:
        """Return the job for partitions that are not being written."""
        by_journal = self._fits_journal(partitions)
        return Job([_flush_of(each, by_journal, self.may_leave_unsynced) for each in partitions])

    def _fits_journal(self, partitions: list[Partition]) -> bool:
        """Return whether the journal takes a round; a large one is as quickly synced log by log."""
        size_bytes = 0
        for partition in partitions:
            if partition.durable:
                size_bytes += partition.log.staged_bytes
        if not size_bytes or size_bytes > JOURNALED_BYTES_MAX or self._to_unname:
            return False
        if self._journal.has_room(size_bytes, len(partitions)):
            return True
        return self._begin_lap() and self._journal.has_room(size_bytes, len(partitions))

    def _begin_lap(self) -> bool:
        """Return whether the journal restarts; otherwise sync the logs of its entries."""
        behind: list[LogFlush] = []
        offline: list[LogId] = []
        for log_id, partition in list(self._journaled.items()):
            if partition in self._under_way:
                continue  # A worker syncs it, or this round does.
            serving_log = partition.serving_log
            if partition.deleted:
                del self._journaled[log_id]
                self._journal.release(log_id)
            elif serving_log is None:
                offline.append(log_id)  # It is closed, and opened again, by another thread.
            elif not serving_log.needs_journal:
                del self._journaled[log_id]  # It was opened again, and has restored its batches.
            else:
                self._under_way[partition] = []
                nothing = Staged((), serving_log.written_offset, 0)
                behind.append(LogFlush(partition, serving_log, nothing, sync=True, journaled=False))
        if offline:
            self._recall(offline)
        if behind:
            self._begin(Job(behind), loop_may_wait=len(behind) <= INLINE_LOGS_MAX)
        if self._journaled or self._journaling or not self._has_journal():
            return False
        try:
            self._journal.restart()
        except StorageError as failure:
            log.error("the journal failed; logs are synced one by one", error=str(failure))
            return False
        except AssertionError:
            log.exception("the journal met an impossible state and is not restarted")
            return False
        return True

    def _has_journal(self) -> bool:
        """Return whether there is a working journal: a failed one is replaced, if the disk accepts it.

        That is tried in fewer and fewer rounds, or where a log can't be cut otherwise.
        """
        if self._journal.failure is None:
            return True
        self._rounds_without_journal += 1
        if self._rounds_without_journal.bit_count() > 1 and not self._to_unname:
            return False
        try:
            self._journal.renew()
        except StorageError:
            return False  # That it has failed was said.
        except AssertionError:
            log.exception("the journal met an impossible state and is not replaced")
            return False
        self._rounds_without_journal = 0
        log.info("the journal works again, in a new file")
        return True

    def _fits_inline(self, job: Job) -> bool:
        if job.size_bytes > INLINE_BYTES_MAX:
            return False
        is_slow = self._mean_sync_seconds > INLINE_SYNC_SECONDS_MAX
        for each in job.flushes:
            if (is_slow and each.sync) or each.log.rolls_with(each.staged):
                return False
            if each.sync and not each.journaled and each.log.unsynced_bytes > INLINE_BYTES_MAX:
                return False  # A topic that was lax until now, or for flush.ms.
        return True

    def _hand_over(self, job: Job) -> None:
        self._handed_over[job] = time.monotonic()
        self._writers.submit(partial(self._write, job))

    def _write(self, job: Job) -> None:
        """Write the job in a thread, and let the loop finish it."""
        job.run(self._journal)
        self._loop.post(partial(self._finish, job))

    @property
    def longest_seconds(self) -> float:
        """How long the oldest flush of a writer has been running, 0 without one."""
        oldest = next(iter(self._handed_over.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    def _finish(self, job: Job) -> None:
        if job.is_handed_over:
            self._handed_over.pop(job, None)
            self._journal_syncs -= job.journaled
        self._note_time(job)
        self._journaling -= job.journaled
        if any(job.errors):
            failed = [flush for flush, error in zip(job.flushes, job.errors, strict=True) if error]
            self._recall(
                [each.log.log_id for each in failed if each.journaled or each.log.log_id in self._journaled]
            )
        for flush, error in zip(job.flushes, job.errors, strict=True):
            waiting = self._under_way.pop(flush.partition)
            try:
                if error is None:
                    self._succeeded(flush)
                else:
                    self._failed(flush, error)
            except Exception:  # noqa: BLE001  # A supervisor: the other partitions of the job have their own.
                self._contain("a partition that was flushed met an impossible state")
            for done in waiting:
                try:
                    done(error)
                except Exception:  # noqa: BLE001  # A supervisor: others do not get one waiter's error.
                    self._contain("whoever waited for a flush met an impossible state")

    def _contain(self, what: str) -> None:
        """Log the exception that is being handled: it ends here."""
        log.exception(what)

    def _succeeded(self, flush: LogFlush) -> None:
        partition = flush.partition
        if flush.journaled or self._journaled:
            if flush.log.needs_journal:  # Also if nobody waits for a sync any more.
                self._journaled[flush.log.log_id] = partition
            else:
                self._journaled.pop(flush.log.log_id, None)
        if flush.sync:
            partition.sync_due = False
        else:
            self.on_unsynced(partition)
        partition.committed(flush.staged.end_offset)

    def _failed(self, flush: LogFlush, error: StorageError) -> None:
        partition = flush.partition
        self._counters.flush_failures += 1
        if not partition.failures:
            log.error("a flush failed", topic=partition.topic, partition=partition.index, error=str(error))
        partition.failed(error)

    def _recall(self, failed: list[LogId]) -> None:
        """Let the journal keep batches that logs which failed together may lack when they are reopened."""
        if not failed:
            return
        try:
            self._journal.recall(failed)
        except StorageError as error:  # They stay where they are in `_journaled`.
            log.error("the journal can be neither read nor replaced", error=str(error))
            return
        for log_id in failed:
            self._journaled.pop(log_id, None)
            self._journal.release(log_id)

    def _note_time(self, job: Job) -> None:
        self._counters.flush_seconds.add(job.seconds)
        if job.syncs and job.size_bytes <= INLINE_BYTES_MAX:  # A large write says little of a sync.
            mean = min(job.seconds / job.syncs, SAMPLE_SECONDS_MAX)
            self._mean_sync_seconds += MEAN_WEIGHT * (mean - self._mean_sync_seconds)

    def close(self) -> None:
        """Return when the workers have finished their jobs. Blocks."""
        self._writers.close()


def _fits_one_entry(partition: Partition) -> bool:
    """Return whether the journal's sync makes the staged batches durable, or can."""
    return partition.durable and 0 < partition.log.staged_bytes <= JOURNALED_BYTES_MAX


def _flush_of(
    partition: Partition, by_journal: bool, may_leave_unsynced: Callable[[Partition], bool]
) -> LogFlush:
    """Return the work for the partition: all staged batches, as durable as its topic asks now.

    The journal makes only batches durable that follow synced ones: a topic that was lax before is
    synced in its log first. One that has become lax is synced once more, so that the journal with its
    entries can restart.
    """
    flushed, durable, role = partition.log, partition.durable, partition.role
    sync = durable or partition.wants_sync() or flushed.needs_journal
    if not sync and flushed.staged_bytes and not role.is_closed:
        sync = not may_leave_unsynced(partition)
    if not (by_journal and durable) or role.is_closed or not flushed.is_durable:
        return LogFlush(partition, flushed, flushed.take_staged(), sync, journaled=False)
    staged = flushed.take_staged()
    follows = not role.replicated or _has_no_gap(staged, flushed.written_offset)
    return LogFlush(partition, flushed, staged, sync, journaled=follows and bool(staged.batches))


def _has_no_gap(staged: Staged, offset: int) -> bool:
    """Return whether the batches follow one another: a leader that has compacted its log leaves gaps.

    A log restores only journaled batches that follow its own.
    """
    for batch in staged.batches:
        if batch.base_offset != offset:
            return False
        offset = batch.last_offset + 1
    return True
