"""Opens failed logs again, with growing delays while that fails."""

from functools import partial

import structlog

from kohort.broker.partitions.failing_logs import FailingLogs
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import WorkQueue
from kohort.storage import StorageError

REOPEN_DELAYS_MS = (100, 500, 2_000, 10_000)

log = structlog.get_logger("kohort.partition")


class LogReopening:
    """Opens failed logs again. The loop's thread, unless said otherwise."""

    def __init__(
        self,
        files: LogFiles,
        flusher: Flusher,
        unsynced: Unsynced,
        *,
        timers: Timers,
        clock: Clock,
        loop: Loop,
        file_work: WorkQueue,
    ) -> None:
        self._files = files
        self._flusher = flusher
        self._unsynced = unsynced
        self._timers = timers
        self._clock = clock
        self._loop = loop
        self._file_work = file_work
        self._attempts: dict[Partition, int] = {}  # To open a log again, since it served last.
        self._short: set[Partition] = set()  # A log of theirs lacked records, and the journal has some still.
        self.failing_logs = FailingLogs(clock)

    def failed(self, partition: Partition) -> None:
        """Open a failed partition's log again. Any thread."""
        self._loop.post(lambda: self._reopen_later(partition))

    def serve_later(self, partition: Partition, opened: OpenedLog) -> None:
        """Serve from a log, opened for the first time, that lacks records. Any thread."""
        self._loop.post(partial(self._serve_again, partition, opened))

    def _reopen_later(self, partition: Partition) -> None:
        """Open the log again after a while; each failed attempt makes it a longer one.

        Flushes requested before the failure must have failed by then: they would succeed on
        the new log, which has none of their records.
        """
        self.failing_logs.failed(partition)
        self._unsynced.failed(partition)
        attempt = self._attempts.get(partition, 0)
        if not attempt and partition.had_log:
            self._flusher.request(partition, lambda _: self._set_reopening(partition, attempt))
        else:
            self._set_reopening(partition, attempt)

    def _set_reopening(self, partition: Partition, attempt: int) -> None:
        self._attempts[partition] = attempt + 1
        delay_ms = REOPEN_DELAYS_MS[min(attempt, len(REOPEN_DELAYS_MS) - 1)]
        deadline_ms = self._clock.now_ms() + delay_ms
        self._timers.set(("reopen", partition), deadline_ms, lambda: self._reopen(partition))

    def _reopen(self, partition: Partition) -> None:
        if partition.deleted:
            self._attempts.pop(partition, None)
            self._short.discard(partition)
        else:
            self._file_work.submit(self._open_again, partition)

    def _open_again(self, partition: Partition) -> None:
        """Open the log, in the worker's thread, and hand the outcome to the loop."""
        opened: OpenedLog | None = None
        try:
            opened = self._files.open(partition, again=True)
        except StorageError as error:
            text = str(error)
            log.warning("a log can't be opened", topic=partition.topic, partition=partition.index, error=text)
        finally:  # Nobody else tries again, after a bug as well.
            if opened is None:
                self.failed(partition)
            else:
                self._loop.post(partial(self._serve_again, partition, opened))

    def _serve_again(self, partition: Partition, opened: OpenedLog) -> None:
        """Serve from the log; if it lacks records, after the journal has no later ones."""
        if partition.deleted:
            self._short.discard(partition)
            return  # Its files are being removed, or were: the same thread does one after another.
        if partition in self._short:
            opened = opened._replace(lost_tail=True)  # Opened once more it does not tell.
        if not opened.lost_tail:
            self._use(partition, opened)
            return

        def serve(error: StorageError | None) -> None:
            if error is None:
                self._short.discard(partition)
                self._use(partition, opened)
            else:  # After a crash the journal would overwrite records appended from now on.
                self._short.add(partition)
                self.failed(partition)

        self._flusher.when_unnamed(opened.log.log_id, serve)

    def _use(self, partition: Partition, opened: OpenedLog) -> None:
        self._attempts.pop(partition, None)
        self._files.serves_again(opened.log)
        partition.reopened(opened)
        self._unsynced.note_synced(partition)
        if partition.failures == 1 and not partition.deleted:
            log.info("a partition serves again", topic=partition.topic, partition=partition.index)
