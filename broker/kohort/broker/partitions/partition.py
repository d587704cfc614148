"""One partition as this broker has it: what may be appended, what may be read, who waits for more."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import msgspec
import structlog

from kohort.broker.config import TopicConfig
from kohort.broker.partitions.log_files import NameTaken
from kohort.broker.partitions.produced import Produced, prepare
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import (
    NO_PRODUCER_ID,
    BatchHeader,
    ControlType,
    build_transaction_marker,
    read_header,
)
from kohort.protocol.records.effort import Effort
from kohort.storage import PartitionLog, StorageError

if TYPE_CHECKING:
    from kohort.broker.replication import Following, Leadership

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
DURABLE_FLUSH_MESSAGES = 1

log = structlog.get_logger("kohort.partition")


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where records went. `log_append_time_ms` is -1 where they keep their own timestamps."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Wait(Protocol):
    """Somebody who waits until there is more to read in a partition."""

    def advanced(self, partition: "Partition") -> None:
        """Hear that the high watermark has moved, or that the partition can't serve any more."""
        ...


class LedElsewhere(StorageError):
    """Another broker leads the partition by now, or nobody: what was asked of it here may be lost."""


Committed = Callable[[StorageError | None], None]
"""Called in the loop's thread once all replicas that count have something, or never will by this leader."""


class Partition:
    """A partition that is on this broker. All methods belong to the loop's thread but `open`.

    One that is `replicated` serves only in a role: it leads, and its high watermark is what its in-sync
    replicas have, or it follows. `Replicas` gives it its roles. Any other one is led as long as it is here.

    Its log is opened at first use, so that a broker with many partitions starts at once. `error_code`
    is what every request is answered while the partition does not serve, and None while it does.
    """

    __slots__ = (
        "_awaits_epoch",
        "_commits",
        "_failed",
        "_had_log",
        "_lax_end_offset",
        "_open_log",
        "_opening",
        "config",
        "deleted",
        "durable",
        "error_code",
        "failures",
        "following",
        "high_watermark",
        "index",
        "is_behind",
        "leader_epoch",
        "leadership",
        "log",
        "lost_tail",
        "offline",
        "on_epoch_behind",
        "on_lost_tail",
        "on_opened",
        "on_synced",
        "opened",
        "replica_waits",
        "replicated",
        "resigned",
        "start_waits",
        "sync_due",
        "topic",
        "topic_id",
        "waits",
    )

    log: PartitionLog

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        *,
        leader_epoch: int,
        config: TopicConfig,
        open_log: Callable[["Partition"], PartitionLog],
        on_failed: Callable[["Partition"], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.config = config
        self.durable = config.flush_messages == DURABLE_FLUSH_MESSAGES
        self.sync_due = False  # Whether flush.ms have passed since something was written without a sync.
        self.high_watermark = 0
        self.offline: StorageError | None = None
        self.failures = 0
        """How often the log failed since something was last written; the log tells of the first alone."""
        self.error_code: ErrorCode | None = None
        self.deleted = False
        self.opened = False
        self.resigned = False
        """Whether another broker leads by now, or nobody; what was asked of this one before is refused."""
        self._had_log = False
        self._lax_end_offset = 0  # Up to where others may count what was written before it had to be synced.
        self.lost_tail = False  # Whether the log that is opened just now lacks what its disk had confirmed.
        self._awaits_epoch = False  # Whether nothing may be appended under the leader epoch of now.
        self.on_lost_tail: Callable[[Partition], bool] = lambda partition: False
        self.is_behind = False
        """Whether the metadata had an older leader epoch than is known here, and none above that since."""
        self.on_epoch_behind: Callable[[Partition, int], None] = lambda partition, epoch: None
        """Called in any thread where this leader epoch is known, and the metadata have an older one."""
        self.waits: dict[Wait, None] = {}
        self.replicated = False
        """Whether other brokers have it as well, or had: it serves in a role only."""
        self.leadership: Leadership | None = None
        self.following: Following | None = None
        self.replica_waits: dict[Wait, None] = {}
        """Followers that wait for more; they see what is on the disk here."""
        self.start_waits: dict[Wait, None] | None = None  # Hardly ever: no room is taken for it.
        """Who waits until all replicas begin behind what is to be deleted."""
        self.on_opened: Callable[[Partition], None] = lambda partition: None
        """Called in any thread once the log is open, or is open again."""
        self.on_synced: Callable[[Partition], None] = lambda partition: None
        """Called where more of a replicated log is as durable as its topic asks."""
        self._commits: deque[tuple[int, Committed]] = deque()  # Who waits for the high watermark, by offset.
        self._open_log = open_log
        self._opening = Lock()
        self._failed = on_failed

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.index}>"

    # -- opening ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the log unless that has been done. Any thread; a failure leaves the partition offline.

        Where files of a deleted topic are in the way, clients are told to come again, and the next use
        tries anew.
        """
        with self._opening:
            if self.opened or self.deleted:
                return
            try:
                self._use(self._open_log(self))
            except NameTaken:
                self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                return
            except StorageError as error:
                self._go_offline(error)
                self._failed(self)
            self.opened = True
        if self.replicated:
            self.on_opened(self)

    def reopened(self, opened: PartitionLog) -> None:
        """Serve again, from a log that was opened anew after a failure."""
        self.offline = None
        self._use(opened)
        if self.replicated:
            self.on_opened(self)

    def _use(self, opened: PartitionLog) -> None:
        """Serve from `opened`: all that it holds is on disk, and with one replica that is committed."""
        if not self.replicated:
            opened.assign_epoch(self.leader_epoch)
        lost_tail = self.lost_tail or opened.log_end_offset < max(self.high_watermark, self._told_offset)
        self.lost_tail = False
        self.log = opened
        self._lax_end_offset = 0
        self._had_log = True
        end_offset = opened.log_end_offset
        self.high_watermark = min(self.high_watermark, end_offset) if self.replicated else end_offset
        epoch_before = self.leader_epoch
        # One that was asked for and has not come yet is still waited for: the tail is lost all the same.
        self._awaits_epoch |= lost_tail and self.on_lost_tail(self)
        if self.leader_epoch > epoch_before:  # The loop has been quicker than this thread.
            self._awaits_epoch = False
        if opened.latest_epoch > self.leader_epoch:
            self.is_behind = True
            self.is_behind = self.leader_epoch <= opened.latest_epoch  # The loop may have been quicker again.
            self.on_epoch_behind(self, opened.latest_epoch)
        serves = not self._awaits_epoch and not self.is_behind and not self.resigned and not self.replicated
        self.error_code = None if serves else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.deleted:  # Looked at last: the loop may have deleted it while a worker was opening it.
            self.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def _told_offset(self) -> int:
        """Up to where other brokers may have, or may count, what the log before this one had."""
        if not self.replicated or not self._had_log:
            return 0
        written_offset = self.log.written_offset
        if not self.durable:
            return written_offset
        return max(self.log.flushed_offset, min(self._lax_end_offset, written_offset))

    @property
    def size_bytes(self) -> int:
        """What the log holds on the disk; a partition that is offline counts as empty."""
        serving_log = self.serving_log
        return 0 if serving_log is None else serving_log.size_bytes

    def _go_offline(self, error: StorageError) -> None:
        self.failures += 1
        if self.failures == 1:  # A log on a full disk opens well, and fails again at the next write.
            log.error("a partition is offline", topic=self.topic, partition=self.index, error=str(error))
        self.offline = error
        self.error_code = ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def is_in_use(self) -> bool:
        """Whether its log grows: it serves, or follows its leader."""
        return self.error_code is None or (self.following is not None and not self.deleted)

    @property
    def had_log(self) -> bool:
        """Whether a log was opened: `log` is there, though it may have failed since."""
        return self._had_log

    @property
    def serving_log(self) -> PartitionLog | None:
        """The log, if it is open and has not failed."""
        return self.log if self.opened and self.offline is None else None

    # -- appending --------------------------------------------------------------------------------------

    def prepare(
        self, records: bytes | memoryview, header: BatchHeader, now_ms: int, effort: Effort
    ) -> Produced:
        """Return a client's batch, whose form has been validated, as `append` takes it. Any thread.

        Raises: EffortExceeded; ApiError with what Kafka answers.
        """
        if self.error_code is not None:
            raise ApiError(self.error_code)
        return prepare(self.config, records, header, now_ms, effort)

    def append(self, produced: Produced, now_ms: int) -> Appended:
        """Stage a client's batch; the caller asks for the flush.

        A batch that the producer has sent before is not staged again; the answer is the first one's.
        Raises: ApiError with what Kafka answers, and then nothing has changed.
        """
        if self.error_code is not None:
            raise ApiError(self.error_code)
        records, header = produced.records, produced.header
        first = self.log.producers.check(header) if header.producer_id > NO_PRODUCER_ID else None
        append_time_ms = now_ms if self.config.message_timestamp_type == "LogAppendTime" else None
        if first is not None:
            timestamp_ms = NO_TIMESTAMP if append_time_ms is None else first.timestamp
            return Appended(first.base_offset, timestamp_ms, self.log.log_start_offset, duplicate=True)
        base_offset = self._stage(records, (header,), append_time_ms)
        timestamp_ms = NO_TIMESTAMP if append_time_ms is None else append_time_ms
        return Appended(base_offset, timestamp_ms, self.log.log_start_offset)

    def append_marker(
        self,
        kind: ControlType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        now_ms: int,
        *,
        is_bumped: bool = False,
    ) -> int:
        """Stage the marker that ends a producer's transaction here; return its offset; the caller flushes.

        Raises: ApiError with what Kafka answers, and then nothing has changed.
        """
        if self.error_code is not None:
            raise ApiError(self.error_code)
        self.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, is_bumped=is_bumped)
        marker = build_transaction_marker(
            kind,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        return self._stage(marker, (read_header(marker),), None)

    def append_own(self, batch: bytes) -> int:
        """Stage a batch that the broker made itself, and return its base offset; the caller flushes.

        Raises: StorageError while the partition does not serve.
        """
        if self.error_code is not None:
            raise self.offline or StorageError(
                f"{self.topic}-{self.index} does not serve: {self.error_code.name}"
            )
        return self._stage(batch, (read_header(batch),), None)

    def _stage(
        self, records: bytes | memoryview, headers: Sequence[BatchHeader], append_time_ms: int | None
    ) -> int:
        return self.log.stage(records, headers, self.leader_epoch, append_time_ms=append_time_ms)

    def wants_sync(self) -> bool:
        """Whether what is staged is to be synced with all before it, as flush.messages and flush.ms ask."""
        if self.durable or self.sync_due:
            return True
        return self.log.log_end_offset - self.log.flushed_offset >= self.config.flush_messages

    # -- after a flush ----------------------------------------------------------------------------------

    def committed(self, end_offset: int) -> None:
        """Let readers see what a flush has written, and synced where the topic asks for it."""
        if self.replicated:
            self.on_synced(self)
        elif end_offset != self.high_watermark:
            self.high_watermark = end_offset
            self._wake()
            if self.failures:
                self._works_again()

    def _works_again(self) -> None:
        """Something was written since the last failure. That the log was opened again said little yet."""
        if self.failures > 1:
            log.info("a partition takes writes again", topic=self.topic, partition=self.index)
        self.failures = 0

    def failed(self, error: StorageError) -> None:
        """Go offline: what was staged is lost, and what is on the disk must be read anew."""
        if self.offline is None and not self.deleted:
            self._go_offline(error)
            self._end_role(error)
            self._wake()
            self._failed(self)

    def delete(self) -> None:
        """Answer nobody any more; whoever waits is told that the partition is gone."""
        self.deleted = True
        self.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._end_role(LedElsewhere(f"{self.topic}-{self.index} is deleted"))
        self._wake()

    def follow(self, config: TopicConfig, leader_epoch: int) -> None:
        """Work under the topic's settings and the leader epoch that the metadata has from now on."""
        serving_log = self.serving_log
        if config != self.config:
            self.config = config
            was_durable, self.durable = self.durable, config.flush_messages == DURABLE_FLUSH_MESSAGES
            if self.durable and not was_durable and self._had_log:
                self._lax_end_offset = self.log.written_offset
            if serving_log is not None:
                serving_log.config = log_config_of(config)
        known_epoch = self.known_epoch
        if leader_epoch < known_epoch or (self.is_behind and leader_epoch == known_epoch):
            self.on_epoch_behind(self, known_epoch)
            self.fall_behind(known_epoch)
        elif leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            was_waiting, self.is_behind = self._awaits_epoch or self.is_behind, False
            if serving_log is not None and not self.replicated:
                serving_log.assign_epoch(leader_epoch)
            if (
                was_waiting
                and not self.resigned
                and not self.replicated
                and self.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            ):
                self.error_code = None
            self._awaits_epoch = False

    @property
    def known_epoch(self) -> int:
        """The highest leader epoch that the metadata have had here, or that the log has."""
        serving_log = self.serving_log
        return self.leader_epoch if serving_log is None else max(self.leader_epoch, serving_log.latest_epoch)

    def fall_behind(self, epoch: int) -> None:
        """Serve nobody until the metadata, which have stepped back, have a leader epoch above this one.

        One that is replicated has no role meanwhile, which `Replicas` sees to.
        """
        if self.leader_epoch <= epoch:
            self.is_behind = True
            if self.error_code is None and not self.replicated:
                self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._wake()

    def led_elsewhere(self) -> LedElsewhere:
        """Return what whoever asked the leader is told."""
        return LedElsewhere(f"{self.topic}-{self.index} is led by another broker")

    def resign(self) -> None:
        """Lead no more: whoever asks, or waits, is told to look for the leader. The log stays open."""
        if not self.resigned:
            self.resigned = True
            if self.error_code is None:
                self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._end_role(self.led_elsewhere())
            self._wake()

    def lead_again(self) -> None:
        """Lead anew, under the leader epoch that `follow` was told of."""
        self.resigned = False
        if self.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and not (self._awaits_epoch or self.is_behind):
            self.error_code = None

    def _wake(self) -> None:
        if self.waits:
            self._wake_all(self.waits)
        if self.error_code is not None:
            self.wake_replicas()

    def wake_start_waits(self) -> None:
        """Have those look again who wait for where replicas begin; they wait anew if they must."""
        waits, self.start_waits = self.start_waits, None
        if waits is not None:
            self._wake_all(waits)

    def wait_for_starts(self, wait: Wait) -> None:
        """Wake `wait` once a replica may begin elsewhere."""
        self.start_waits = {} if self.start_waits is None else self.start_waits
        self.start_waits[wait] = None

    def wait_for_starts_no_more(self, wait: Wait) -> None:
        """Leave `wait` alone."""
        if self.start_waits is not None:
            self.start_waits.pop(wait, None)

    def wake_replicas(self) -> None:
        """Have followers that wait look again."""
        if self.replica_waits:
            self._wake_all(self.replica_waits)

    def _wake_all(self, waits: dict[Wait, None]) -> None:
        for wait in tuple(waits):
            try:
                wait.advanced(self)
            except Exception:  # A supervisor: what ails one reader costs the others nothing.
                log.exception("a reader could not be woken", topic=self.topic, partition=self.index)
                waits.pop(wait, None)

    # -- roles of a replicated partition ------------------------------------------------------------------

    def lead(self, leadership: "Leadership") -> None:
        """Lead under this leader epoch; what an earlier role was asked for is refused."""
        self._end_role(LedElsewhere(f"{self.topic}-{self.index} is led under another epoch"))
        self.leadership = leadership
        self.resigned = False
        self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if self._awaits_epoch else None
        self.moved()
        self._wake()

    def follow_leader(self, following: "Following") -> None:
        """Follow under this leader epoch."""
        self.resign()
        self._end_role(self.led_elsewhere())
        self.following = following

    def have_no_role(self) -> None:
        """Neither lead nor follow: nobody leads, or the log can't be read."""
        self.resign()
        self.following = None

    def moved(self) -> None:
        """Show what is committed by now, and tell who waits for it."""
        role = self.leadership or self.following
        if role is None or role.high_watermark == self.high_watermark:
            return
        self.high_watermark = high_watermark = role.high_watermark
        if self.failures:
            self._works_again()
        if self.following is not None and self.log.has_transactions:
            self.log.last_stable_offset(high_watermark)  # Nobody else asks a follower: it may forget.
        commits = self._commits
        while commits and commits[0][0] <= high_watermark:
            self._tell(commits.popleft()[1], None)
        self._wake()
        self.wake_replicas()

    def when_committed(self, end_offset: int, done: Committed) -> None:
        """Call `done` once all before `end_offset` is on every replica that counts. Asked for in order."""
        if self.leadership is None:
            done(self.offline or self.led_elsewhere())
        elif self.leadership.high_watermark >= end_offset:
            done(None)
        else:
            self._commits.append((end_offset, done))

    def _end_role(self, error: StorageError) -> None:
        """Be neither leader nor follower; who waits for the high watermark hears why it will not come."""
        self.leadership = self.following = None
        self.wake_start_waits()
        commits = self._commits
        if commits:
            self._commits = deque()
            for _, done in commits:
                self._tell(done, error)

    def _tell(self, done: Committed, error: StorageError | None) -> None:
        try:
            done(error)
        except Exception:  # A supervisor: what goes wrong there is kept from the others who wait.
            log.exception("whoever waited for a commit failed", topic=self.topic, partition=self.index)

    # -- what readers ask -------------------------------------------------------------------------------

    def check_leader_epoch(self, epoch: int) -> ErrorCode | None:
        """Return what a client is told whose idea of the leader epoch is not ours; -1 is none (KIP-320)."""
        if epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, else the high watermark."""
        if not self.log.has_transactions:
            return self.high_watermark
        return self.log.last_stable_offset(self.high_watermark)
