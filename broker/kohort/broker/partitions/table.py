"""Every partition that this broker leads, kept equal to the metadata."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import structlog

from kohort.broker.config import TopicConfig, topic_config
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import MetadataStore, PartitionKey, PartitionState, Snapshot, TopicState
from kohort.broker.partitions.failing_logs import FailingLogs
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.host import NameTaken, OpenedLog
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.low_watermarks import Start, until_everywhere
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Event, Workers
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError
from kohort.storage.layout import log_id_of

if TYPE_CHECKING:
    from kohort.broker.partitions.replicas import Replicas

REOPEN_DELAYS_MS = (100, 500, 2_000, 10_000)
OPENERS = 4
OPENED_AT_ONCE = 16  # By one call of a thread: the way there and back costs as much as a small log,
OPENING_MS = 50  # and who stops the broker waits for no more than the log under way then.
FOLDER_CHECK_SECONDS = 1
FOLDER_CHECK_MS_MAX = 30_000  # A look that takes longer hangs in the disk.

Partitions = list[Partition | None]
"""The partitions of a topic by index; None for one that is on other brokers alone."""

MayLead = Callable[[PartitionKey, PartitionState], bool]
"""Returns whether this broker may act as the partition's leader under that state, as its lease has it."""

log = structlog.get_logger("kohort.partition")


class _News(NamedTuple):
    """Waits for whatever happens to a partition."""

    came: Event

    def advanced(self, partition: Partition) -> None:
        """Hear of it."""
        self.came.set()


class PartitionTable:
    """The partitions by topic name, by topic id, and in a row. All methods belong to the loop's thread."""

    def __init__(
        self,
        metadata: MetadataStore,
        current: CurrentConfig,
        node_id: int,
        *,
        files: LogFiles,
        flusher: Flusher,
        timers: Timers,
        clock: Clock,
        loop: Loop,
        workers: Workers,
        may_lead: MayLead | None = None,
        replicas: "Replicas | None" = None,
        unsynced: Unsynced | None = None,
    ) -> None:
        """Take the partitions that the metadata gives to `node_id`. Raises: StorageError.

        A broker alone leads for ever what it leads. In a cluster `may_lead` is asked at each change of the
        metadata, and at each `refresh`; `replicas` is who gives those with several replicas their roles,
        and `unsynced` keeps which have something that is not synced.
        """
        self._metadata = metadata
        self._current = current
        self._node_id = node_id
        self._files = files
        self._flusher = flusher
        self._timers = timers
        self._clock = clock
        self._loop = loop
        self._workers = workers
        self._may_lead = may_lead
        self.replicas = replicas
        self._unsynced = unsynced or Unsynced()
        self.on_lax: Callable[[Partition], None] = lambda partition: None
        """Called where a partition that need not be synced at once is under other settings."""
        self._by_name: dict[str, Partitions] = {}
        self._by_id: dict[UUID, Partitions] = {}
        self._making: dict[str, Future[None]] = {}
        self.unopened: set[Partition] = set()
        """Those that nobody has opened yet. To be looked at only: any thread takes from it what it opens."""
        self.raise_leader_epoch: Callable[[Partition], None] | None = None
        """Called in the loop where a log has lost its end: its readers have to look again."""
        self.on_epoch_behind: Callable[[Partition, int], None] = lambda partition, epoch: None
        """Called in the loop where the metadata have an older leader epoch of a partition than this one."""
        self._attempts: dict[Partition, int] = {}  # To open a log again, since it served last.
        self.failing_logs = FailingLogs(clock)
        self._file_work = workers.queue("log-files")  # In order: files go before others take their name.
        files.set_strays_aside(metadata.snapshot(), self._has_replica)
        if replicas is not None:
            replicas.know_brokers(metadata.snapshot())
        for topic in metadata.snapshot().topics.values():
            self._put(topic)
        self._unwatch = metadata.watch(self._apply)

    # -- finding ----------------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, its log open unless it is offline, or None where this broker has none."""
        return _at(self._by_name.get(topic), index)

    def peek(self, topic: str | UUID, index: int) -> Partition | None:
        """Return the partition, whether open or not, or None where this broker has none."""
        known = self._by_name.get(topic) if isinstance(topic, str) else self._by_id.get(topic)
        return _peek(known, index)

    def get_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        """Return the partition of the topic with this id, as `get` does."""
        return _at(self._by_id.get(topic_id), index)

    def serving(self, topic: str, index: int, leader_epoch: int = -1) -> Partition:
        """Return the partition that serves under the leader epoch that the client knows, -1 for any.

        Raises: ApiError with what Kafka answers where there is none.
        """
        partition = self.get(topic, index)
        if partition is None:
            raise ApiError(self.why_missing(topic, index))
        error_code = partition.error_code or partition.check_leader_epoch(leader_epoch)
        if error_code is not None:
            raise ApiError(error_code)
        return partition

    def why_missing(self, topic: str | UUID, index: int) -> ErrorCode:
        """Return what a client is told of a partition that is not in the table."""
        snapshot = self._metadata.snapshot()
        if isinstance(topic, str):
            state = snapshot.topics.get(topic)
        else:
            state = snapshot.topics_by_id.get(topic)
            if state is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        if state is None or not 0 <= index < len(state.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def ready(self, topic: str) -> None:
        """Return once the partitions that a topic has just been given are open, or have failed to."""
        making = self._making.get(topic)
        if making is not None:
            if not making.done():
                await self._workers.in_thread(making.result)
            if self._making.get(topic) is making:
                del self._making[topic]

    async def opened(self, topic: str, index: int) -> Partition:
        """Return the partition once its log is open; opening does not hold the loop up.

        Raises: StorageError if it is offline, or not here.
        """
        partition = _peek(self._by_name.get(topic), index)
        if partition is None:
            raise StorageError(f"{topic}-{index} is not on this broker")
        if not partition.opened:
            await self._workers.in_thread(partition.open)
        if partition.serving_log is None:
            raise partition.offline or StorageError(f"{topic}-{index} is not open yet")
        return partition

    def leads(self, topic: str, index: int) -> bool:
        """Whether this broker leads the partition, open or not."""
        partition = self.peek(topic, index)
        if partition is None:
            return False
        if partition.replicated and self.replicas is not None:
            return self.replicas.is_to_lead(partition)
        return not partition.resigned

    async def committed(self, partition: Partition) -> None:
        """Return once all that the log has by now is on every replica that counts.

        Raises: StorageError where this broker does not lead it, or does not any more.
        """
        if not partition.replicated:
            return
        end_offset = -1
        while self.leads(partition.topic, partition.index) and not partition.deleted:
            if partition.leadership is not None:
                end_offset = partition.log.log_end_offset if end_offset < 0 else end_offset
                if partition.high_watermark >= end_offset:
                    return
            news = _News(self._workers.event())
            partition.waits[news] = None
            try:
                await news.came.wait()
            finally:
                partition.waits.pop(news, None)
        raise partition.led_elsewhere()

    def of_topic(self, topic: str) -> tuple[Partition, ...]:
        """Return the partitions of a topic that this broker leads, whether open or not, by their indexes."""
        return tuple(each for each in self._by_name.get(topic, ()) if each is not None and not each.resigned)

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over all partitions, whether open or not."""
        for partitions in tuple(self._by_name.values()):
            yield from (each for each in partitions if each is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    # -- opening and closing ----------------------------------------------------------------------------

    async def open_all(self) -> None:
        """Open every log in worker threads where the last stop was not clean, since recovery takes long.

        After a clean stop each is opened at its first use, but those that others follow, or that follow; and
        so is one that was at rest before a crash.
        """
        is_sound = (lambda each: True) if self._files.clean else self._files.is_sound
        waiting = deque(each for each in self if each.replicated or not is_sound(each))
        if not waiting:
            return
        openers = [self._workers.event() for _ in range(OPENERS)]
        for done in openers:
            self._workers.spawn(self._open_some, waiting, done)
        for done in openers:
            await done.wait()

    @property
    def is_short(self) -> bool:
        """Whether a log lacks what was on the disk, or cannot be opened, as far as they have been."""
        return self._files.is_short or any(each.offline is not None for each in self if each.replicated)

    def was_cut(self, partition: Partition) -> None:
        """Hear that a follower's log was cut on purpose. Blocks. Raises: StorageError."""
        self._files.was_cut(partition)

    async def _open_some(self, waiting: deque[Partition], done: Event) -> None:
        """Open one partition after another, beside others who do the same."""
        try:
            while waiting:
                await self._workers.in_thread(self._open_next, waiting)
        finally:
            done.set()

    def _open_next(self, waiting: deque[Partition]) -> None:
        """Open a few of those that wait, while other threads take some as well. Blocks."""
        ends_ms = self._clock.now_ms() + OPENING_MS
        for _ in range(OPENED_AT_ONCE):
            try:
                partition = waiting.popleft()
            except IndexError:  # There is none any more, or another thread was quicker.
                return
            partition.open()
            if self._clock.now_ms() >= ends_ms:
                return

    def close(self) -> None:
        """End the work on files that is in progress; the data folder closes the logs. Blocks.

        Files of deleted topics that are still there get a name under which the next start removes them.
        """
        self._unwatch()
        self._file_work.shutdown(cancel_futures=True)
        self._files.put_off_deletions()

    async def between_writes(self, partition: Partition, action: Callable[[], None]) -> None:
        """Run `action` in the loop while nothing writes the partition's log: it may change its segments.

        Raises: StorageError where the flush before it failed, or where `action` does.
        """
        acted = self._workers.event()
        failures: list[StorageError] = []

        def act(error: StorageError | None) -> None:
            try:
                if error is not None:
                    raise error
                action()
            except StorageError as failure:
                failures.append(failure)
            finally:
                acted.set()

        self._flusher.request(partition, act)
        await acted.wait()
        if failures:
            raise failures[0]

    async def until_begun_everywhere(self, starts: Sequence[Start], timeout_ms: int) -> None:
        """Return once these partitions begin there on all their replicas, or after that time."""
        await until_everywhere(starts, timeout_ms, self._workers)

    async def save_log_starts(self) -> None:
        """Keep the start of every log on the disk. Raises: StorageError."""
        await self._workers.in_thread(self._files.checkpoint)

    async def note_resting_logs(self) -> None:
        """Keep on the disk which logs a start after a crash need not open. Raises: StorageError."""
        await self._workers.in_thread(self._files.note_resting_logs)

    async def watch_folder_regularly(self, part: Watched = UNWATCHED) -> None:
        """Take every partition offline where the data folder has gone: what is written now, nobody finds."""
        while True:
            await self._workers.sleep(FOLDER_CHECK_SECONDS)
            with part.working(FOLDER_CHECK_MS_MAX):
                await self.watch_folder()

    async def watch_folder(self) -> None:
        """Look once whether the data folder is still there."""
        try:
            await self._workers.in_thread(self._files.check_present)
        except StorageError as error:
            log.critical("the data folder is gone; nothing is acknowledged any more", error=str(error))
            for partition in self:
                if partition.opened:  # The others fail when they are opened, for the same reason.
                    partition.failed(error)

    # -- what the metadata says -------------------------------------------------------------------------

    def _apply(self, before: Snapshot, after: Snapshot) -> None:
        """Make the table what `after` says; topics that are the same object have not changed."""
        for name, topic in before.topics.items():
            now = after.topics.get(name)
            if now is None or now.topic_id != topic.topic_id:
                self._remove(topic)
        all_changed = before.configs is not after.configs and before.configs != after.configs
        if self.replicas is not None and before.brokers is not after.brokers:
            self.replicas.know_brokers(after)
        coming: list[Partition] = []
        for name, topic in after.topics.items():
            if all_changed or before.topics.get(name) is not topic:
                coming += self._put(topic)
        self._open_soon(coming)

    def refresh(self) -> None:
        """Look again at what this broker may lead: its lease is over, or it has a new one."""
        coming: list[Partition] = []
        for topic in self._metadata.snapshot().topics.values():
            coming += self._put(topic)
        self._open_soon(coming)

    def _open_soon(self, coming: Sequence[Partition]) -> None:
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

    def _put(self, topic: TopicState) -> list[Partition]:
        """Make the topic's settings hold, add the partitions that are new, and return those of ours."""
        config = topic_config(self._current.config, dict(topic.configs))
        partitions = self._by_name.setdefault(topic.name, [])
        self._by_id[topic.topic_id] = partitions
        for missing in partitions[len(topic.partitions) :]:  # In metadata of old, which were restored.
            if missing is not None:
                self._remove_one(missing)
        del partitions[len(topic.partitions) :]
        for partition in partitions:
            if partition is not None:
                is_changed = config != partition.config
                partition.follow(config, topic.partitions[partition.index].leader_epoch)
                if is_changed:
                    self._sync_by_settings(partition)
        made = [
            self._make(topic, config, state) if self._is_here(topic, state) else None
            for state in topic.partitions[len(partitions) :]
        ]
        if self._may_lead is not None:
            made += self._settled(topic, config, partitions)
        partitions.extend(made[: len(topic.partitions) - len(partitions)])
        return [partition for partition in made if partition is not None]

    def _sync_by_settings(self, partition: Partition) -> None:
        """Have synced what the settings of now ask to be: those it was written under may have been laxer."""
        serving_log = partition.serving_log
        if serving_log is None or serving_log.flushed_offset == serving_log.log_end_offset:
            self._note_synced(partition)
        elif partition.wants_sync():
            self._flusher.request(partition, lambda _: self._note_synced(partition))
        else:
            self.on_lax(partition)

    def _note_synced(self, partition: Partition) -> None:
        """Let go of a partition that is strict by now, and all of it is on the disk."""
        serving_log = partition.serving_log
        if not partition.durable or serving_log is None:
            return
        if serving_log.flushed_offset == serving_log.written_offset:
            self._unsynced.synced(partition)

    def _leads(self, topic: TopicState, state: PartitionState) -> bool:
        if state.leader != self._node_id:
            return False
        return self._may_lead is None or self._may_lead((topic.topic_id, state.index), state)

    def _is_here(self, topic: TopicState, state: PartitionState) -> bool:
        """Whether the partition's log is on this broker: alone, it leads what it has."""
        if self._may_lead is None:
            return state.leader == self._node_id
        return self._node_id in state.replicas

    def _has_replica(self, key: tuple[str, int]) -> bool:
        """Whether a partition of a topic that is in the metadata may have its log on this broker."""
        topic = self._metadata.snapshot().topics.get(key[0])
        if self._may_lead is None or topic is None or key[1] >= len(topic.partitions):
            return True
        return self._node_id in topic.partitions[key[1]].replicas

    def _settled(self, topic: TopicState, config: TopicConfig, known: Partitions) -> list[Partition]:
        """Have known partitions lead or resign, as they may; return those that come to this broker."""
        made: list[Partition] = []
        for state in topic.partitions[: len(known)]:
            partition = known[state.index]
            if partition is None:
                if self._is_here(topic, state):
                    partition = known[state.index] = self._make(topic, config, state)
                    made.append(partition)
            elif self._node_id not in state.replicas:
                known[state.index] = None
                self._remove_one(partition)
            elif self.replicas is not None and (partition.replicated or len(state.replicas) > 1):
                was_replicated = partition.replicated
                self.replicas.settle(partition, state, leads=self._leads(topic, state))
                if not was_replicated and not self._unsynced.became_replicated(partition):
                    partition.sync_due = True
                    self._flusher.request(partition, lambda _: None)
            elif self._leads(topic, state):
                partition.lead_alone()
            else:
                partition.resign()
        return made

    def _make(self, topic: TopicState, config: TopicConfig, state: PartitionState) -> Partition:
        made = Partition(
            topic.name,
            topic.topic_id,
            state.index,
            leader_epoch=state.leader_epoch,
            config=config,
            host=self,
        )
        self.unopened.add(made)
        leads = self._leads(topic, state)
        if self.replicas is not None and len(state.replicas) > 1:
            self.replicas.settle(made, state, leads=leads)
        elif not leads:
            made.resign()
        return made

    def synced(self, partition: Partition, /) -> None:
        """Note that more of a replicated log is as durable as its topic asks."""
        if self.replicas is not None:
            self.replicas.synced(partition)

    def log_opened(self, partition: Partition, /) -> None:
        """Have the partition take its role, now that its log is open. Any thread."""
        if self.replicas is not None:
            self.replicas.opened(partition)

    def open_log(self, partition: Partition, /) -> OpenedLog:
        """Return the partition's log at its first use. Any thread. Raises: StorageError, NameTaken."""
        try:
            opened = self._files.open(partition)
        except NameTaken:
            raise  # It is tried again.
        except StorageError:
            self.unopened.discard(partition)
            raise
        self.unopened.discard(partition)
        return opened

    def lost_tail(self, partition: Partition, /) -> bool:
        """Return whether somebody raises the leader epoch: until then nothing is served. Any thread."""
        raise_leader_epoch = self.raise_leader_epoch
        if raise_leader_epoch is None:
            return False
        self._loop.post(partial(raise_leader_epoch, partition))
        return True

    def epoch_behind(self, partition: Partition, epoch: int, /) -> None:
        """Have the metadata's leader epoch raised above this one. Any thread."""

        def raise_epoch() -> None:
            partition.fall_behind(epoch)
            self.on_epoch_behind(partition, epoch)

        self._loop.post(raise_epoch)

    def _remove(self, topic: TopicState) -> None:
        self._by_id.pop(topic.topic_id, None)
        self._making.pop(topic.name, None)
        for partition in self._by_name.pop(topic.name, ()):
            if partition is not None:
                self._remove_one(partition)

    def _remove_one(self, partition: Partition) -> None:
        """Let a partition go, with its files: it is deleted, or on other brokers from now on.

        Where the metadata were read anew nobody has said so: they may be older than the partition. Its files
        are set aside then.
        """
        self.unopened.discard(partition)
        if self.replicas is not None:
            self.replicas.forget(partition)
        partition.close()
        self._unsynced.synced(partition)
        self._files.announce_deletion(partition, is_kept=self._metadata.snapshot().is_reloaded)
        if not partition.had_log:
            self._delete_unnamed(partition)
        else:  # What a flush is writing must be over, and the flusher knows when that is.
            self._flusher.request(partition, lambda _: self._delete_unnamed(partition))

    def _delete_unnamed(self, partition: Partition) -> None:
        """Delete the files once the journal has nothing of the log: the partition may come back."""
        log_id = log_id_of(partition.topic_id, partition.index)
        self._flusher.when_unnamed(log_id, lambda _: self._delete_files(partition))

    def _delete_files(self, partition: Partition) -> None:
        self._file_work.submit(self._files.delete, partition)

    # -- after a failure --------------------------------------------------------------------------------

    def log_failed(self, partition: Partition, /) -> None:
        """Have a failed partition's log opened again. Any thread."""
        self._loop.post(lambda: self._reopen_later(partition))

    def _reopen_later(self, partition: Partition) -> None:
        """Open the log again after a while; each failed attempt makes it a longer one.

        Flushes that were asked for before the failure must have failed by then: they would succeed on
        the new log, which has nothing of what they were for.
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
        else:
            self._file_work.submit(self._open_again, partition)

    def _open_again(self, partition: Partition) -> None:
        """Open the log, in the worker's thread, and hand the outcome to the loop."""
        try:
            opened = self._files.open(partition, again=True)
        except StorageError as error:
            text = str(error)
            log.warning("a log can't be opened", topic=partition.topic, partition=partition.index, error=text)
            self.log_failed(partition)
        else:
            self._loop.post(lambda: self._serve_again(partition, opened))

    def _serve_again(self, partition: Partition, opened: OpenedLog) -> None:
        """Serve from the log; one that lacks something, once the journal has nothing that lies behind."""
        if partition.deleted:
            return  # Its files go, or have gone: the same thread does one after the other.
        if opened.lost_tail:
            self._flusher.when_unnamed(opened.log.log_id, lambda _: self._use(partition, opened))
        else:
            self._use(partition, opened)

    def _use(self, partition: Partition, opened: OpenedLog) -> None:
        self._attempts.pop(partition, None)
        self._files.serves_again(opened.log)
        partition.reopened(opened)
        self._note_synced(partition)
        if partition.failures == 1 and not partition.deleted:
            log.info("a partition serves again", topic=partition.topic, partition=partition.index)


def _peek(partitions: Partitions | None, index: int) -> Partition | None:
    """Return the partition, open or not."""
    if partitions is None or not 0 <= index < len(partitions):
        return None
    return partitions[index]


def _at(partitions: Partitions | None, index: int) -> Partition | None:
    """Return the partition, opened if it was not."""
    if partitions is None or not 0 <= index < len(partitions):
        return None
    partition = partitions[index]
    if partition is not None and not partition.opened:
        partition.open()
    return partition
