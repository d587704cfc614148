"""A share partition on the leader of its partition: which records are acquired, and which state is written.

The pure core decides which member has which record. Here are the timer of the locks, and the writes of the
state to the share coordinator. One write is under way, and is tried again until the coordinator has it. What
comes meanwhile goes together in the next write, so that writes keep their order. Kafka: SharePartition.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import structlog

from kohort.broker.config.group_settings import GroupSettings, duration_ms
from kohort.broker.coordination.share_state_shards import RETRIABLE, ShareStateShards
from kohort.broker.explain.share_groups import PartitionExplained, explain_partition
from kohort.broker.group.share.delivery_events import DeliveryEvents, Reason
from kohort.broker.group.share.partition import Limits, SharePartition, Words, Write
from kohort.broker.group.share.record import Acknowledgement, Batch, DeadRecords, RecordState
from kohort.broker.partitions import Partition
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.share_state.commands import ReadState, WriteState
from kohort.broker.share_state.state import NO_EPOCH, UNKNOWN_COUNT, UNKNOWN_OFFSET, ShareKey, next_try
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.read_share_group_state import ReadShareGroupStatePartitionResult
from kohort.protocol.messages.write_share_group_state import WriteShareGroupStatePartitionResult
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import ShareStateBatch
from kohort.storage import StorageError

RETRY_MS = 100
ATTEMPTS_MAX = 100
BATCHES_PER_WRITE_MAX = 10_000
FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
FENCED = (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH)
Done = Callable[[ErrorCode], None]

log = structlog.get_logger("kohort.share")


RequestDeadLetters = Callable[["LedSharePartition", DeadRecords], None]


class ShareWait(Protocol):
    """A request that waits until there are records to acquire in a share partition."""

    def available(self, led: "LedSharePartition") -> None:
        """Check again: there may be records, or the share partition is not served any more."""
        ...


class _Pending(NamedTuple):
    """State to be written, and the callback for its result.

    Unless it `is_settled` already, the core settles it then.
    """

    write: Write
    start_offset: int
    is_settled: bool
    done: Done


def _ignore(code: ErrorCode) -> None:
    """Do nothing: nobody waits for it."""


class LedSharePartition:
    """A share partition. It has a `core` once its state has been read. The loop's thread only."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        states: ShareStateShards,
        *,
        settings: Callable[[], GroupSettings],
        timers: Timers,
        clock: Clock,
        forget: Callable[["LedSharePartition"], None],
        request_dead_letters: RequestDeadLetters,
        delivery_events: DeliveryEvents | None = None,
        doubtful_epoch: int = NO_EPOCH,
    ) -> None:
        """`forget` is called when no member uses it any more, or it has failed.

        `doubtful_epoch` is the state epoch of an earlier one's last write, if its result is unknown.
        `request_dead_letters` has dead letters written, and then calls `dead_letters_written`.
        `delivery_events` are the events noted before.
        """
        self.delivery_events = DeliveryEvents() if delivery_events is None else delivery_events
        self.key = key
        self.partition = partition
        self.core: SharePartition | None = None
        self.end_code: ErrorCode | None = None
        """Why it is not served any more; the next request makes a new one."""
        self.waits: dict[ShareWait, None] = {}
        self.members: set[str] = set()
        """The members whose sessions include it."""
        self._states = states
        self._settings = settings
        self._timers = timers
        self._clock = clock
        self._forget = forget
        self._request_dead_letters = request_dead_letters
        self.doubtful_epoch = doubtful_epoch
        """The state epoch of a write whose result is not known yet."""
        self._state_epoch = 0
        self.leader_epoch = partition.leader_epoch
        """Under which this broker leads the partition; by another one it has another share partition."""
        self._limits_of: GroupSettings | None = None  # Whose limits the core has.
        self._attempts = 0
        self._is_busy = False  # From the start of a write until all waiters have its result.
        self._writing: list[_Pending] = []
        self._waiting: deque[_Pending] = deque()  # In the order in which they were asked for.

    def is_of(self, partition: Partition) -> bool:
        """Whether it belongs to this partition under its leader epoch of now."""
        return self.partition is partition and self.leader_epoch == partition.leader_epoch

    # -- loading ------------------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        """Whether its state is still being read; `wake` is called when that has ended, either way."""
        return self.core is None and self.end_code is None

    def load(self) -> None:
        """Read its state; where that fails, try again."""
        if self.end_code is None:
            self._states.ask(
                self.key, lambda request_id: ReadState(request_id, self.key, self.leader_epoch), self._read
            )

    def _read(self, answer: Message) -> None:
        assert isinstance(answer, ReadShareGroupStatePartitionResult)
        if self.end_code is not None:
            return
        if answer.error_code in RETRIABLE:
            self._again(self.load, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if answer.error_code != ErrorCode.NONE:
            self.end(_member_error(answer.error_code))
            return
        self._attempts = 0
        self._state_epoch = answer.state_epoch
        if self.doubtful_epoch != NO_EPOCH:
            # A higher state epoch refuses earlier writes that come late. Then the state is read again.
            self._state_epoch = next_try(max(self._state_epoch, self.doubtful_epoch))
            self._write_before_begin(UNKNOWN_OFFSET, self.load)
            return
        if answer.start_offset != UNKNOWN_OFFSET:
            batches = [
                Batch(each.first_offset, each.last_offset, _state(each.delivery_state), each.delivery_count)
                for each in answer.state_batches
            ]
            self._begin(answer.start_offset, batches)
            return
        try:
            start_offset = self._first_start()
        except StorageError as error:
            self.partition.failed(error)
            self.end(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        # Written before any record is handed out: the broker must not choose another start after a restart.
        self._write_before_begin(start_offset, lambda: self._begin(start_offset, ()))

    def _write_before_begin(self, start_offset: int, then: Callable[[], None]) -> None:
        def written(answer: Message) -> None:
            assert isinstance(answer, WriteShareGroupStatePartitionResult)
            if self.end_code is not None:
                return
            if answer.error_code == ErrorCode.NONE:
                self.doubtful_epoch = NO_EPOCH
                then()
            elif answer.error_code in RETRIABLE:
                self._again(self.load, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self.end(_member_error(answer.error_code))

        self._ask_to_write((), start_offset, UNKNOWN_COUNT if start_offset == UNKNOWN_OFFSET else 0, written)

    def _first_start(self) -> int:
        """Return the offset at which a new group begins. Raises: StorageError."""
        settings, partition = self._settings(), self.partition
        reset = settings.share_auto_offset_reset
        end_offset = self.end_offset
        if reset == "latest":
            return end_offset
        back_ms = duration_ms(reset)
        if back_ms is None:
            return partition.log.log_start_offset
        found = partition.log.offset_for_timestamp(max(self._clock.wall_ms() - back_ms, 0))
        return end_offset if found is None else min(found[0], end_offset)

    def _begin(self, start_offset: int, batches: Sequence[Batch]) -> None:
        self.core = SharePartition(start_offset, _limits(self._settings()), batches, self.delivery_events)
        self.core.log_starts_at(self.partition.log.log_start_offset)
        self._attempts = 0
        # The former leader of the partition may not have done it.
        self._request_dead_letters_of(self.core.batches())
        self.wake()

    def _again(self, action: Callable[[], None], code: ErrorCode) -> None:
        self._attempts += 1
        if self._attempts > ATTEMPTS_MAX:
            self.end(code)
        else:
            self._timers.set((self, "again"), self._clock.now_ms() + RETRY_MS, action)

    # -- requests of members ------------------------------------------------------------------------------

    @property
    def wants_committed(self) -> bool:
        """Whether the group gets no records of open and aborted transactions."""
        return self._settings().share_isolation_level == "read_committed"

    @property
    def end_offset(self) -> int:
        """The offset before which records may be handed out."""
        return self.partition.last_stable_offset if self.wants_committed else self.partition.high_watermark

    def acquire(
        self, member_id: str, first_offset: int, last_offset: int, max_records: int, *, often: bool = False
    ) -> Sequence[Batch]:
        """Return the batches of these offsets that the member has acquired."""
        assert self.core is not None
        self._follow_settings(self.core)
        acquired = self.core.acquire(
            member_id, first_offset, last_offset, max_records, self._clock.now_ms(), often=often
        )
        if acquired:
            self._arm_locks()
        return acquired

    def _follow_settings(self, core: SharePartition) -> None:
        settings = self._settings()
        if settings is not self._limits_of:
            self._limits_of, core.limits = settings, _limits(settings)

    def archive(self, first_offset: int, last_offset: int) -> None:
        """Archive acquired records of these offsets: nobody may see them."""
        assert self.core is not None
        self._write(self.core.archive(first_offset, last_offset), _ignore)

    def acknowledge(self, member_id: str, words: Words, done: Done) -> None:
        """Take acknowledgements; `done` is called once they are durable or refused. Raises: ApiError."""
        core = self.core
        if core is None:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)
        self._follow_settings(core)
        write = core.acknowledge_all(member_id, words, self._clock.now_ms())
        if any(Acknowledgement.RENEW in kinds for _, _, kinds in words):
            self._arm_locks()
        self._write(write, done, is_settled=False)

    def release(
        self, member_id: str, done: Done = _ignore, *, reason: Reason = Reason.SESSION_CLOSED
    ) -> None:
        """Release the records of a member whose session ends."""
        self.members.discard(member_id)
        if self.core is None:
            done(ErrorCode.NONE)
        else:
            write = self.core.release_member(member_id, self._clock.now_ms(), reason)
            self._write(write, done)
            if write.batches:
                self.wake()
        self._forget_if_unused()

    def dead_letters_written(self, dead: DeadRecords, *, is_written: bool) -> None:
        """Continue with records whose dead letters are written, or never will be."""
        if self.end_code is None and self.core is not None:
            write = self.core.buried(
                dead.first_offset, dead.last_offset, self._clock.now_ms(), is_written=is_written
            )
            self._write(write, _ignore)
            self.wake()
            self._forget_if_unused()  # Where the log's start has passed them there is nothing to write.

    def _request_dead_letters_of(self, batches: Sequence[Batch]) -> None:
        """Write dead letters for the batches that are durable in the state ARCHIVING."""
        assert self.core is not None
        for batch in batches:
            if batch.state is RecordState.ARCHIVING:
                for dead in self.core.dead(batch.first_offset, batch.last_offset):
                    self._request_dead_letters(self, dead)

    def left(self, member_id: str) -> None:
        """Note that a member does not fetch it any more; the member may still acknowledge its records."""
        self.members.discard(member_id)
        self._forget_if_unused()

    def _arm_locks(self) -> None:
        assert self.core is not None
        deadline_ms = self.core.locks.next_timeout_ms()
        if deadline_ms is None:
            self._timers.cancel(self)
        else:
            self._timers.set(self, deadline_ms, self._locks_ended)

    def _locks_ended(self) -> None:
        assert self.core is not None
        write = self.core.expire_locks(self._clock.now_ms())
        self._arm_locks()
        if write.batches:
            log.info(
                "acquisition locks timed out; records are available again",
                group_id=self.key.group_id,
                topic=self.partition.topic,
                partition=self.key.partition,
                records=sum(each.last_offset + 1 - each.first_offset for each in write.batches),
            )
            self._write(write, _ignore)
            self.wake()
        self._forget_if_unused()

    def explained(self) -> PartitionExplained:
        """Return which member has acquired which records, and the last events."""
        if self.core is None:
            return PartitionExplained(
                topic=self.partition.topic,
                partition=self.key.partition,
                start_offset=None,
                end_offset=None,
            )
        ahead_ms = self._clock.wall_ms() - self._clock.now_ms()
        return explain_partition(
            self.partition.topic, self.key.partition, self.core, ahead_ms, self.end_offset
        )

    def wake(self) -> None:
        """Wake the requests that wait for records."""
        for wait in tuple(self.waits):
            wait.available(self)

    # -- writing ------------------------------------------------------------------------------------------

    def _write(self, write: Write, done: Done, *, is_settled: bool = True) -> None:
        assert self.core is not None
        if not write.batches:
            done(ErrorCode.NONE)
            return
        self._waiting.append(_Pending(write, self.core.start_offset, is_settled, done))
        if not self._is_busy:
            self._submit()

    def _submit(self) -> None:
        """Write what waits, in one write."""
        assert self.core is not None
        self._is_busy = True
        batches: list[ShareStateBatch] = []
        done_count, start_offset = self.core.done_count, UNKNOWN_OFFSET
        while self._waiting and len(batches) < BATCHES_PER_WRITE_MAX:
            pending = self._waiting.popleft()
            self._writing.append(pending)
            start_offset = max(start_offset, pending.start_offset)
            for each in pending.write.batches:
                batches.append(
                    ShareStateBatch(
                        first_offset=each.first_offset,
                        last_offset=each.last_offset,
                        delivery_state=each.state,
                        delivery_count=each.delivery_count,
                    )
                )
                if not pending.is_settled and each.state in FINAL:
                    done_count += each.last_offset + 1 - each.first_offset
        self._ask_to_write(batches, start_offset, done_count, self._written)

    def _ask_to_write(
        self,
        batches: Sequence[ShareStateBatch],
        start_offset: int,
        done_count: int,
        answered: Callable[[Message], None],
    ) -> None:
        self.doubtful_epoch = self._state_epoch

        def command(request_id: int) -> WriteState:
            return WriteState(
                request_id, self.key, self._state_epoch, self.leader_epoch, start_offset, done_count, batches
            )

        self._states.ask(self.key, command, answered)

    def _written(self, answer: Message) -> None:
        """Settle the written state, call its waiters, and write the changes made meanwhile."""
        assert isinstance(answer, WriteShareGroupStatePartitionResult)
        if self.end_code is not None:
            return
        if answer.error_code in RETRIABLE:
            self._waiting.extendleft(reversed(self._writing))
            self._writing.clear()
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # It may come late.
                self._state_epoch = next_try(self._state_epoch)
            self._again(self._submit, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._attempts = 0
        self.doubtful_epoch = NO_EPOCH
        code = ErrorCode(answer.error_code)
        written, self._writing = self._writing, []
        self._settle(written, is_durable=code is ErrorCode.NONE)
        for pending in written:
            pending.done(code if code is ErrorCode.NONE else _member_error(code))
        self._is_busy = False
        if code not in FENCED:
            for pending in written:
                self._request_dead_letters_of(pending.write.batches)
        if code in FENCED:
            self.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self.waits:
            self.wake()
        if self._waiting and not self._is_busy:
            self._submit()
        self._forget_if_unused()

    def _settle(self, written: Iterable[_Pending], *, is_durable: bool) -> None:
        assert self.core is not None
        unsettled = [pending for pending in written if not pending.is_settled]
        for pending in unsettled:
            self.core.settle(pending.write, self._clock.now_ms(), is_durable=is_durable)
        if unsettled:
            self._arm_locks()

    # -- ending -------------------------------------------------------------------------------------------

    def _forget_if_unused(self) -> None:
        """End it where no session includes it and nothing is under way: its state is durable."""
        if self.members or self.waits or self._is_busy or self.end_code is not None:
            return
        if self.core is not None and self.core.is_idle:
            self.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def end(self, code: ErrorCode) -> None:
        """End it: requests that wait are answered `code`, and the next request makes a new one."""
        if self.end_code is not None:
            return
        self.end_code = code
        self._timers.cancel(self)
        self._timers.cancel((self, "again"))
        self._forget(self)
        pending_writes = (*self._writing, *self._waiting)
        self._writing.clear()
        self._waiting.clear()
        for pending in pending_writes:
            pending.done(code)
        self.wake()


def _limits(settings: GroupSettings) -> Limits:
    return Limits(
        settings.share_delivery_count_limit,
        settings.share_record_lock_duration_ms,
        settings.share_partition_max_record_locks,
        bool(settings.errors_deadletterqueue_topic_name),
    )


def _state(number: int) -> RecordState:
    """Return the state; AVAILABLE for one that this version does not know."""
    return RecordState(number) if number in RecordState.__members__.values() else RecordState.AVAILABLE


def _member_error(code: int) -> ErrorCode:
    """Return the error that members get for an error of the coordinator. As Kafka does."""
    if code in FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code == ErrorCode.INVALID_REQUEST:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # It has no state.
    return ErrorCode(code)
