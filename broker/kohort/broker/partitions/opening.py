"""How logs are opened: at their first use, or all of them at a start that needs it."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import structlog

from kohort.broker.partitions.host import NameTaken, OpenedLog
from kohort.broker.partitions.index import PartitionIndex
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.reopening import LogReopening
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.workers import Event, Workers, WorkQueue
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.partitions.replicas import Replicas

OPENERS = 4
OPENERS_WHILE_SERVING = 2  # They share the interpreter and the disk with requests.
OPENERS_FOR_REQUESTS = 8  # Threads that open logs for whoever asks; others wait for their turn.
OPENED_AT_ONCE = 16  # Opened in one call of a thread: such a call costs as much as opening a small log.
OPENING_MS = 50  # A call opens no further log after that, so that a stop waits for one log at most.

log = structlog.get_logger("kohort.partition")


def _nobody_counts(_partition: Partition) -> None:
    """Do nothing: no partition has replicas elsewhere."""


class LogOpening:
    """Opens logs, and is the host of all partitions. The loop's thread, unless said otherwise."""

    def __init__(
        self,
        partitions: PartitionIndex,
        files: LogFiles,
        reopening: LogReopening,
        replicas: "Replicas | None",
        *,
        clock: Clock,
        loop: Loop,
        workers: Workers,
        file_work: WorkQueue,
        on_lost_tail: Callable[[Partition], None],
        on_epoch_behind: Callable[[Partition, int], None],
    ) -> None:
        """`on_lost_tail` and `on_epoch_behind` are called in the loop."""
        self._partitions = partitions
        self._files = files
        self._reopening = reopening
        self._replicas = replicas
        self.synced: Callable[[Partition], None] = _nobody_counts if replicas is None else replicas.synced
        """Notes that more of a replicated log is as durable as its topic asks."""
        self._clock = clock
        self._loop = loop
        self._workers = workers
        self._file_work = file_work
        self.on_lost_tail = on_lost_tail
        self.on_epoch_behind = on_epoch_behind
        self.reports_lost_tails = False
        """Whether `on_lost_tail` is called: after the start has checked all logs that are open by then."""
        self._making: dict[str, Future[None]] = {}
        self._serving_later: dict[Partition, OpenedLog] = {}  # Until `log_failed`, in the opening thread.
        self._threads = workers.limiter(OPENERS_FOR_REQUESTS)
        self._under_way: dict[Partition, object] = {}  # Being opened just now. Any thread.
        self._waiters: dict[Partition, list[Event]] = {}  # For the end of such an opening.
        self.unopened: set[Partition] = set()
        """Partitions that are not opened yet. Only to be read: any thread removes those it opens."""

    def add(self, partition: Partition) -> None:
        """Note a partition that is new here."""
        self.unopened.add(partition)

    def remove(self, partition: Partition) -> None:
        """Forget a partition that is gone."""
        self.unopened.discard(partition)

    # -- as the host of partitions ------------------------------------------------------------------------

    def log_opened(self, partition: Partition, /) -> None:
        """Let the partition take its role, now that its log is open. Any thread."""
        if self._replicas is not None:
            self._replicas.opened(partition)

    def open_log(self, partition: Partition, /) -> OpenedLog:
        """Return the partition's log at its first use. Any thread. Raises: StorageError, NameTaken.

        A log that lacks records, while the journal has some of it, is offline until the journal has none.
        A bug costs one partition, which is offline as well.
        """
        try:
            opened = self._files.open(partition)
        except NameTaken:
            raise  # It is tried again.
        except StorageError:
            self.unopened.discard(partition)
            raise
        except Exception as error:  # A supervisor: it is opened again later, as after other failures.
            log.exception(
                "opening a log met an impossible state", topic=partition.topic, partition=partition.index
            )
            self.unopened.discard(partition)
            raise StorageError(f"opening the log met an impossible state: {error!r}") from error
        self.unopened.discard(partition)
        if opened.lost_tail and self.reports_lost_tails and self._files.is_journaled(opened.log):
            self._serving_later[partition] = opened
            raise StorageError("its disk has lost records, and the journal must forget later ones first")
        return opened

    def lost_tail(self, partition: Partition, /) -> None:
        """Raise the leader epoch: until then nothing is served. Any thread."""
        self._loop.post(partial(self.on_lost_tail, partition))

    def log_failed(self, partition: Partition, /) -> None:
        """Open a failed partition's log again, or serve from the one that is open. Any thread."""
        opened = self._serving_later.pop(partition, None)
        if opened is None:
            self._reopening.failed(partition)
        else:
            self._reopening.serve_later(partition, opened)

    def epoch_behind(self, partition: Partition, epoch: int, /) -> None:
        """Raise the metadata's leader epoch above this one. Any thread."""

        def raise_epoch() -> None:
            partition.fall_behind(epoch)
            self.on_epoch_behind(partition, epoch)

        self._loop.post(raise_epoch)

    # -- new partitions -----------------------------------------------------------------------------------

    def create_soon(self, coming: Sequence[Partition]) -> None:
        """Create the folders of new partitions and open their logs, in a worker."""
        if coming:
            self._files.announce_creation(coming)
            making = self._file_work.submit(self._create, coming)
            self._making.update((each.topic, making) for each in coming)

    def _create(self, partitions: Sequence[Partition]) -> None:
        """Make the folders of new partitions and open their logs, in the worker's thread."""
        try:
            self._files.create(partitions)
        except StorageError as error:  # Opening will say so for each, and be tried again.
            log.error("partitions can't be created", topic=partitions[0].topic, error=str(error))
        for partition in partitions:
            partition.open()

    async def ready(self, topic: str) -> None:
        """Return when the new partitions of a topic are open, or have failed to open. It holds no thread."""
        making = self._making.get(topic)
        if making is not None:
            if not making.done():
                made = self._workers.event()
                making.add_done_callback(lambda _: self._loop.post(made.set))
                await made.wait()
            making.result()
            if self._making.get(topic) is making:
                del self._making[topic]

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that is deleted."""
        self._making.pop(topic, None)

    # -- at a start ---------------------------------------------------------------------------------------

    async def open_all(self, threads: int = OPENERS) -> None:
        """Open every log in worker threads where the last stop was not clean, since recovery takes long.

        After a clean stop each is opened at its first use, except those with followers or leaders; so is
        one that was at rest before a crash. If there is a bug in opening one, the others are opened before
        the error is raised.
        """
        is_sound = (lambda each: True) if self._files.clean else self._files.is_sound
        waiting = deque(
            each for each in self._partitions if not each.opened and (each.replicated or not is_sound(each))
        )
        if not waiting:
            return
        logs = len(waiting)
        if not self._files.clean:
            log.info("logs are recovered after an unclean stop", logs=logs)
        openers = [self._workers.event() for _ in range(threads)]
        errors: list[Exception] = []
        for done in openers:
            self._workers.spawn(self._open_some, waiting, errors, done)
        for done in openers:
            await done.wait()
        if errors:
            raise errors[0]
        if not self._files.clean:
            log.info("logs have been recovered", logs=logs)

    @property
    def is_short(self) -> bool:
        """Whether a log lacks records that were on the disk, or cannot be opened, among the opened ones."""
        replicated = (each for each in self._partitions if each.replicated)
        return self._files.is_short or any(each.offline is not None for each in replicated)

    async def _open_some(self, waiting: deque[Partition], errors: list[Exception], done: Event) -> None:
        """Open one partition after another, concurrently with other tasks."""
        try:
            while (first := _next_of(waiting)) is not None:
                # This thread may wait for the one that is opening the log: at a start the loop, which would
                # wake a waiting task, may not run yet.
                is_under_way = first in self._under_way
                open_next = first.open if is_under_way else partial(self._open_few, first, waiting)
                try:
                    await self._workers.in_thread(open_next)
                except Exception as error:  # noqa: BLE001  # Whoever waits for all gets it.
                    errors.append(error)
        finally:
            done.set()

    # -- in threads ---------------------------------------------------------------------------------------

    async def opened(self, partitions: Iterable[Partition]) -> None:
        """Return when these logs are open, or have failed to open.

        A thread opens a few at a time. None waits for a log that another one is opening: the task does.
        """
        waiting = deque(partitions)
        while (partition := _next_of(waiting)) is not None:
            if partition in self._under_way:
                await self._until_ended(partition)
            elif not partition.opened:
                await self._workers.in_thread(self._open_few, partition, waiting, limiter=self._threads)

    def _open_few(self, first: Partition, waiting: deque[Partition]) -> None:
        """Open a log and a few of the waiting ones, up to one that another thread is opening. Blocks."""
        ends_ms = self._clock.now_ms() + OPENING_MS
        partition = first
        for _ in range(OPENED_AT_ONCE):
            if not partition.opened and not self._open_unless_under_way(partition):
                break
            following = _next_of(waiting) if self._clock.now_ms() < ends_ms else None
            if following is None:
                return
            partition = following
        waiting.appendleft(partition)

    def _open_unless_under_way(self, partition: Partition) -> bool:
        """Open a log, and return True, unless another thread is opening it. Blocks."""
        mine = object()
        if self._under_way.setdefault(partition, mine) is not mine:
            return False
        try:
            partition.open()
        finally:
            del self._under_way[partition]
            if partition in self._waiters:  # One that comes now looks again whether it is under way.
                self._loop.post(partial(self._wake, partition))
        return True

    async def _until_ended(self, partition: Partition) -> None:
        """Return when a thread has opened the log, or has failed to."""
        ended = self._workers.event()
        self._waiters.setdefault(partition, []).append(ended)
        if partition not in self._under_way:
            self._wake(partition)
        await ended.wait()

    def _wake(self, partition: Partition) -> None:
        for ended in self._waiters.pop(partition, ()):
            ended.set()


def _next_of(waiting: deque[Partition]) -> Partition | None:
    """Take the first, if there is one. Any thread."""
    try:
        return waiting.popleft()
    except IndexError:
        return None
