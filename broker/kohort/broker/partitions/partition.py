"""One partition as this broker has it: its log, its role, its high watermark, and the readers that wait."""

from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from kohort.broker.config import TopicConfig
from kohort.broker.partitions.host import NameTaken, OpenedLog, PartitionHost
from kohort.broker.partitions.produced import Appended, Produced, prepare
from kohort.broker.partitions.roles import (
    ALONE,
    IDLE,
    RESIGNED,
    SUSPENDED,
    Closed,
    Committed,
    Follower,
    Leader,
    Role,
    check_transition,
)
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.broker.partitions.waits import Waits
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import NO_PRODUCER_ID, BatchHeader, read_header
from kohort.protocol.records.work_budget import WorkBudget
from kohort.storage import PartitionLog, StorageError

if TYPE_CHECKING:  # A broker alone imports nothing of replication.
    from kohort.broker.replication import Following, Leadership

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
DURABLE_FLUSH_MESSAGES = 1

log = structlog.get_logger("kohort.partition")


class LedElsewhere(StorageError):
    """Another broker leads the partition, or none: records appended here before may be lost."""


_changing = Lock()
"""Held while the role or the log's state of a partition changes: `error_code` follows from both.

A worker thread opens the log while the loop changes the role. The lock is held for no I/O, so that all
partitions share it.
"""


class Partition:
    """A partition that is on this broker. All methods belong to the loop's thread but `open`.

    Its role says whether this broker leads it; see `roles`. `Replicas` decides on the role of a partition
    that several brokers have. The high watermark of such a partition is what its in-sync replicas have; that
    of any other one is the end of its log.

    The log is opened at first use, so that a broker with many partitions starts at once. `error_code` is the
    answer to all requests while the partition does not serve, and None while it does.
    """

    __slots__ = (
        "_awaits_epoch",
        "_host",
        "_lax_end_offset",
        "_name_is_taken",
        "_opening",
        "config",
        "durable",
        "error_code",
        "failures",
        "following",
        "had_log",
        "high_watermark",
        "index",
        "is_behind",
        "leader_epoch",
        "leadership",
        "log",
        "offline",
        "opened",
        "replica_waits",
        "role",
        "start_waits",
        "sync_due",
        "topic",
        "topic_id",
        "waits",
    )

    log: PartitionLog
    error_code: ErrorCode | None

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        *,
        leader_epoch: int,
        config: TopicConfig,
        host: "PartitionHost[Partition]",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.config = config
        self.durable = config.flush_messages == DURABLE_FLUSH_MESSAGES
        self.sync_due = False  # Whether flush.ms have passed since a write without a sync.
        self.role: Role = ALONE
        self.leadership: Leadership | None = None
        """The leader's knowledge of the followers; taken from the role."""
        self.following: Following | None = None
        """A follower's knowledge of its leader; taken from the role."""
        self.high_watermark = 0
        self.waits: Waits[Partition] = Waits()
        self.replica_waits: Waits[Partition] = Waits()
        """Followers that wait for more records; they see those on the disk here."""
        self.start_waits: Waits[Partition] = Waits()
        """Requests that wait until all replicas start after the records to delete."""
        self.opened = False
        """Whether the log is open, or could not be opened."""
        self.offline: StorageError | None = None
        """Why the log cannot be used until it is opened again."""
        self.failures = 0
        """How often the log has failed since something was last written. Only the first time is logged."""
        self._host = host
        self._opening = Lock()
        self.had_log = False
        """Whether a log was opened: `log` is set, although it may have failed since."""
        self._lax_end_offset = 0  # Others may count records up to here that needed no sync when written.
        self._awaits_epoch = False  # Whether nothing may be appended under the current leader epoch.
        self.is_behind = False
        """Whether the metadata had an older leader epoch than is known here, and none above that since."""
        self._name_is_taken = False  # Whether a deleted topic's files are in the way of the log.
        self._derive_error_code()

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.index}>"

    # -- the role, and what follows from it -----------------------------------------------------------------

    def _derive_error_code(self) -> None:
        """Set the error code for clients, by the role and by the log's state. `_changing` is held."""
        code = self.role.error_code
        if self.offline is not None:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        elif self._awaits_epoch or self.is_behind or self._name_is_taken:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.error_code = self.role.error_code if self.deleted else code

    def _become(self, role: Role, ended: StorageError, failure: StorageError | None = None) -> None:
        """Take a role, and wake all waiters. Those that wait for a commit get `ended`.

        With `failure` the log is offline from now on. Raises: ImpossibleTransition; nothing has changed then.
        """
        before = self.role
        if role is not before:
            check_transition(self, before, role, has_log=self.serving_log is not None)
        with _changing:
            if failure is not None:
                self.offline = failure
            self.role, self.leadership, self.following = role, role.leadership, role.following
            self._derive_error_code()
        self.start_waits.wake(self)
        if isinstance(before, Leader):
            for done in before.take_all():
                self._call(done, ended)
        if isinstance(role, Leader):
            self.moved()
        self._wake()

    @property
    def replicated(self) -> bool:
        """Whether other brokers have replicas as well, or had."""
        return self.role.replicated

    @property
    def resigned(self) -> bool:
        """Whether another broker leads, or none: records appended here before may be lost."""
        return self.role.resigned

    @property
    def deleted(self) -> bool:
        """Whether the partition was deleted, or its replica has moved to another broker."""
        return self.role.is_closed

    def lead(self, leadership: "Leadership") -> None:
        """Become the leader of several replicas, under a new leader epoch."""
        self._become(Leader(leadership), LedElsewhere(f"{self.topic}-{self.index} has a new leader epoch"))

    def follow_leader(self, following: "Following") -> None:
        """Become a follower, under a new leader epoch."""
        self._become(Follower(following), self.led_elsewhere())

    def stand_by(self) -> None:
        """Neither lead nor follow, as one of several replicas: none leads, or the log is not open yet."""
        if self.role is not IDLE:
            self._become(IDLE, self.led_elsewhere())

    def suspend(self) -> None:
        """Become one of several replicas while the log is offline: the role comes once it is open again."""
        if not self.role.replicated:
            self._become(SUSPENDED if self.role is ALONE else IDLE, self.led_elsewhere())

    def lead_alone(self) -> None:
        """Lead the only replica, under the leader epoch that `follow` has set."""
        if self.role is not ALONE:
            self._become(ALONE, self.led_elsewhere())

    def resign(self) -> None:
        """Stop leading the only replica: clients look for the leader. The log stays open."""
        if self.role is not RESIGNED:
            self._become(RESIGNED, self.led_elsewhere())

    def close(self) -> None:
        """Refuse all requests: the partition was deleted, or its replica has moved to another broker."""
        self._become(Closed(self.role), LedElsewhere(f"{self.topic}-{self.index} is deleted"))

    def led_elsewhere(self) -> LedElsewhere:
        """Return the error for clients that have asked this broker as the leader."""
        return LedElsewhere(f"{self.topic}-{self.index} is led by another broker")

    # -- opening, and failing -----------------------------------------------------------------------------

    def open(self) -> None:
        """Open the log unless that was done. Any thread. If it fails, the partition is offline.

        If files of a deleted topic have the name, clients get a retriable error, and the next use tries
        again.
        """
        with self._opening:
            if self.opened or self.deleted:
                return
            try:
                opened = self._host.open_log(self)
            except NameTaken:
                with _changing:
                    self._name_is_taken = True
                    self._derive_error_code()
                return
            except StorageError as error:
                self._note_failure(error)
                with _changing:
                    self.offline = error
                    self._derive_error_code()
                    self.opened = True  # Last: from now on the loop uses it without a lock.
                self._host.log_failed(self)
            else:
                self._use(opened)
        self._host.log_opened(self)

    def reopened(self, opened: OpenedLog) -> None:
        """Serve again, from a log that was opened again after a failure."""
        self._use(opened)
        self._host.log_opened(self)

    def _use(self, opened: OpenedLog) -> None:
        """Serve from the log: all that it holds is on the disk, and with one replica that is committed.

        Errors are reported after it is open: the report changes an open partition.
        """
        log_ = opened.log
        end_offset = log_.log_end_offset
        with _changing:  # The loop may change role, settings and epoch until here, and then of this log.
            replicated = self.role.replicated
            if not replicated:
                log_.assign_epoch(self.leader_epoch)
            log_.config = log_config_of(self.config)
            lost_tail = opened.lost_tail or end_offset < max(self.high_watermark, self._told_offset)
            lost_tail = lost_tail and self._host.reports_lost_tails
            latest_epoch = log_.latest_epoch
            is_behind = latest_epoch > self.leader_epoch
            self.log = log_
            self.had_log = True
            self._lax_end_offset = 0
            self.high_watermark = min(self.high_watermark, end_offset) if replicated else end_offset
            self._name_is_taken = False
            # A newer epoch that was asked for before and has not come yet is still waited for.
            self._awaits_epoch |= lost_tail
            self.is_behind |= is_behind
            self.offline = None
            self._derive_error_code()
            self.opened = True  # Last, as in `open`.
        if lost_tail:
            self._host.lost_tail(self)
        if is_behind:
            self._host.epoch_behind(self, latest_epoch)

    @property
    def _told_offset(self) -> int:
        """The end of the previous log that other brokers may have, or may count."""
        if not self.role.replicated or not self.had_log:
            return 0
        written_offset = self.log.written_offset
        if not self.durable:
            return written_offset
        return max(self.log.flushed_offset, min(self._lax_end_offset, written_offset))

    def failed(self, error: StorageError) -> None:
        """Go offline: staged records are lost, and the log has to be read again from the disk."""
        if self.offline is not None or self.deleted:
            return
        self._note_failure(error)
        role = self.role
        if isinstance(role, Leader | Follower):
            role = SUSPENDED if isinstance(role, Leader) else IDLE
        self._become(role, error, failure=error)
        self._host.log_failed(self)

    def _note_failure(self, error: StorageError) -> None:
        self.failures += 1
        if self.failures == 1:  # A log on a full disk opens well, and fails again at the next write.
            log.error("a partition is offline", topic=self.topic, partition=self.index, error=str(error))

    @property
    def is_in_use(self) -> bool:
        """Whether its log grows: it serves, or follows its leader."""
        return self.error_code is None or self.following is not None

    @property
    def serving_log(self) -> PartitionLog | None:
        """The log, if it is open and has not failed."""
        return self.log if self.opened and self.offline is None else None

    # -- appending --------------------------------------------------------------------------------------

    def prepare(
        self, records: bytes | memoryview, header: BatchHeader, now_ms: int, budget: WorkBudget
    ) -> Produced:
        """Return a client's batch, whose form has been validated, as `append` takes it. Any thread.

        Raises: WorkBudgetExceeded; ApiError with what Kafka answers.
        """
        if self.error_code is not None:
            raise ApiError(self.error_code)
        return prepare(self.config, records, header, now_ms, budget)

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
        base_offset = self.log.stage(records, (header,), self.leader_epoch, append_time_ms=append_time_ms)
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
        return self.log.stage(batch, (read_header(batch),), self.leader_epoch)

    def wants_sync(self) -> bool:
        """Whether the staged batches need a sync, by flush.messages and flush.ms."""
        if self.durable or self.sync_due:
            return True
        return self.log.log_end_offset - self.log.flushed_offset >= self.config.flush_messages

    # -- after a flush ----------------------------------------------------------------------------------

    def committed(self, end_offset: int) -> None:
        """Let readers see the written batches of a flush, synced if the topic asks for it."""
        if self.role.replicated:
            self._host.synced(self)
        elif end_offset != self.high_watermark:
            self.high_watermark = end_offset
            self._wake()
            if self.failures:
                self._works_again()

    def _works_again(self) -> None:
        """Note that something was written since the last failure: a log that opens may fail again."""
        if self.failures > 1:
            log.info("a partition takes writes again", topic=self.topic, partition=self.index)
        self.failures = 0

    def moved(self) -> None:
        """Apply the high watermark of the role, and wake its waiters."""
        role, state = self.role, self.leadership or self.following
        if state is None or state.high_watermark == self.high_watermark:
            return
        self.high_watermark = high_watermark = state.high_watermark
        if self.failures:
            self._works_again()
        if isinstance(role, Leader):
            while (done := role.next_committed(high_watermark)) is not None:
                self._call(done, None)
        elif self.log.has_transactions:
            self.log.last_stable_offset(high_watermark)  # No other broker asks a follower: it may forget.
        self._wake()
        self.wake_replicas()

    def when_committed(self, end_offset: int, done: Committed) -> None:
        """Call `done` once every replica that counts has all before `end_offset`. Offsets come in order."""
        role = self.role
        if not isinstance(role, Leader) or self.leadership is None:
            done(self.offline or self.led_elsewhere())
        elif self.leadership.high_watermark >= end_offset:
            done(None)
        else:
            role.wait_for_commit(end_offset, done)

    def _call(self, done: Committed, error: StorageError | None) -> None:
        try:
            done(error)
        except Exception:  # A supervisor: an error of one waiter is kept from the others.
            log.exception("a request that waited for a commit failed", topic=self.topic, partition=self.index)

    # -- settings -----------------------------------------------------------------------------------------

    def follow(self, config: TopicConfig, leader_epoch: int) -> None:
        """Work under the topic's settings and the leader epoch that the metadata has from now on."""
        with _changing:
            if config != self.config:
                self._take_settings(config)
            known_epoch, serving_log = self.leader_epoch, self.serving_log
            if serving_log is not None:
                known_epoch = max(known_epoch, serving_log.latest_epoch)
            is_behind = leader_epoch < known_epoch or (self.is_behind and leader_epoch == known_epoch)
            if not is_behind and leader_epoch > self.leader_epoch:
                self.leader_epoch = leader_epoch
                if serving_log is not None and not self.role.replicated:
                    serving_log.assign_epoch(leader_epoch)
                self._awaits_epoch = self.is_behind = False
                self._derive_error_code()
        if is_behind:
            self._host.epoch_behind(self, known_epoch)
            self.fall_behind(known_epoch)

    def _take_settings(self, config: TopicConfig) -> None:
        """Work under these settings. `_changing` is held."""
        self.config = config
        was_durable, self.durable = self.durable, config.flush_messages == DURABLE_FLUSH_MESSAGES
        if self.durable and not was_durable and self.had_log:
            self._lax_end_offset = self.log.written_offset
        if self.serving_log is not None:
            self.serving_log.config = log_config_of(config)

    def fall_behind(self, epoch: int) -> None:
        """Refuse requests until the metadata, which are outdated, have a leader epoch above this one.

        A replicated partition has no role meanwhile; `Replicas` takes it away.
        """
        if self.leader_epoch > epoch:
            return
        with _changing:
            self.is_behind = True
            self._derive_error_code()
        self._wake()

    def _wake(self) -> None:
        if self.waits:
            self.waits.wake(self)
        if self.error_code is not None:
            self.wake_replicas()

    def wake_replicas(self) -> None:
        """Wake followers that wait for more."""
        if self.replica_waits:
            self.replica_waits.wake(self)

    # -- what readers ask -------------------------------------------------------------------------------

    def check_leader_epoch(self, epoch: int) -> ErrorCode | None:
        """Return the error for a client with another leader epoch; -1 means none (KIP-320)."""
        if epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, else the high watermark."""
        if not self.log.has_transactions:
            return self.high_watermark
        return self.log.last_stable_offset(self.high_watermark)
