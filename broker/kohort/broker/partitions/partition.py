"""One partition as this broker leads it: what may be appended, what may be read, who waits for more."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol
from uuid import UUID

import msgspec
import structlog

from kohort.broker.config import TopicConfig
from kohort.broker.partitions.log_files import NameTaken
from kohort.broker.partitions.produced import Produced, prepare
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import NO_PRODUCER_ID, BatchHeader, read_header
from kohort.protocol.records.effort import Effort
from kohort.storage import PartitionLog, StorageError

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


class Partition:
    """A partition that this broker leads. All methods belong to the loop's thread but `open`.

    Its log is opened at first use, so that a broker with many partitions starts at once. `error_code`
    is what every request is answered while the partition does not serve, and None while it does.
    """

    __slots__ = (
        "_awaits_epoch",
        "_failed",
        "_had_log",
        "_open_log",
        "_opening",
        "config",
        "deleted",
        "durable",
        "error_code",
        "failures",
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "lost_tail",
        "offline",
        "on_lost_tail",
        "opened",
        "resigned",
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
        self.lost_tail = False  # Whether the log that is opened just now lacks what its disk had confirmed.
        self._awaits_epoch = False  # Whether nothing may be appended under the leader epoch of now.
        self.on_lost_tail: Callable[[Partition], bool] = lambda partition: False
        self.waits: dict[Wait, None] = {}
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

    def reopened(self, opened: PartitionLog) -> None:
        """Serve again, from a log that was opened anew after a failure."""
        self.offline = None
        self._use(opened)

    def _use(self, opened: PartitionLog) -> None:
        """Serve from `opened`: all that it holds is on disk, and with one replica that is committed."""
        opened.assign_epoch(self.leader_epoch)
        lost_tail = self.lost_tail or opened.log_end_offset < self.high_watermark
        self.lost_tail = False
        self.log = opened
        self._had_log = True
        self.high_watermark = opened.log_end_offset
        epoch_before = self.leader_epoch
        # One that was asked for and has not come yet is still waited for: the tail is lost all the same.
        self._awaits_epoch |= lost_tail and self.on_lost_tail(self)
        if self.leader_epoch > epoch_before:  # The loop has been quicker than this thread.
            self._awaits_epoch = False
        serves = not self._awaits_epoch and not self.resigned
        self.error_code = None if serves else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.deleted:  # Looked at last: the loop may have deleted it while a worker was opening it.
            self.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

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
        if end_offset != self.high_watermark:
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
            self._wake()
            self._failed(self)

    def delete(self) -> None:
        """Answer nobody any more; whoever waits is told that the partition is gone."""
        self.deleted = True
        self.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._wake()

    def follow(self, config: TopicConfig, leader_epoch: int) -> None:
        """Work under the topic's settings and the leader epoch that the metadata has from now on."""
        serving_log = self.serving_log
        if config != self.config:
            self.config = config
            self.durable = config.flush_messages == DURABLE_FLUSH_MESSAGES
            if serving_log is not None:
                serving_log.config = log_config_of(config)
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            if serving_log is not None:
                serving_log.assign_epoch(leader_epoch)
            if (
                self._awaits_epoch
                and not self.resigned
                and self.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            ):
                self.error_code = None
            self._awaits_epoch = False

    def resign(self) -> None:
        """Lead no more: whoever asks, or waits, is told to look for the leader. The log stays open."""
        if not self.resigned:
            self.resigned = True
            if self.error_code is None:
                self.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._wake()

    def lead_again(self) -> None:
        """Lead anew, under the leader epoch that `follow` was told of."""
        self.resigned = False
        if self.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and not self._awaits_epoch:
            self.error_code = None

    def _wake(self) -> None:
        for wait in tuple(self.waits):
            try:
                wait.advanced(self)
            except Exception:  # A supervisor: what ails one reader costs the others nothing.
                log.exception("a reader could not be woken", topic=self.topic, partition=self.index)
                self.waits.pop(wait, None)

    # -- what readers ask -------------------------------------------------------------------------------

    def check_leader_epoch(self, epoch: int) -> ErrorCode | None:
        """Return what a client is told whose idea of the leader epoch is not ours; -1 is none (KIP-320)."""
        if epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, else the high watermark; there are no transactions yet."""
        return self.high_watermark
