"""A shard: one partition of an internal topic, with its core, log and timers. Kafka: CoordinatorShard.

The core decides a command at once, and its records are replayed at once, so that the next command sees them.
The records of all commands of a round are one batch. The effects of a decision wait until its records are
flushed. A decision without records waits for the effects before it: answers never overtake each other.

A flush that fails drops the core with all that it decided since the last flush that worked, and the shard is
loaded again from its log. An exception in the core does the same: the core may be half changed.

If other replicas lack a flush after `Machine.write_timeout_ms`, the requests that wait for it are
refused COORDINATOR_NOT_AVAILABLE. Nothing is dropped: the other replicas may still get the records.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

import structlog

from kohort.broker.coordination.loading import loaded_core
from kohort.broker.coordination.machine import CoreT, Machine
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.group import CancelTimer, Decision, Effect, Event, Note, Record, Reply, SetTimer
from kohort.broker.group.decision import TransactionalWrite
from kohort.broker.partitions import Partition
from kohort.broker.partitions.partition import LedElsewhere
from kohort.broker.partitions.throttler import Throttler
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker
from kohort.protocol.schema import Message
from kohort.storage import StorageError

Respond = Callable[[Message], None]
PendingEffects = tuple[Any, tuple[Effect, ...]]
"""A command, or None, and its effects, which wait for a flush. A failed flush refuses the command."""

RECORDS_PER_BATCH_MAX = 4_096
CHECKS_PER_TIMEOUT = 5
INLINE_LOAD_BYTES = 64 * 1024  # A log of this size is replayed in the loop: quicker than a thread hop.

log = structlog.get_logger("kohort.group")


class UnreplicatedWrites(NamedTuple):
    """What waited for other replicas at a time: all flushes before `last_flush`, and its first `entries`."""

    at_ms: int
    last_flush: deque[PendingEffects]
    entries: int


class ShardState(Enum):
    """Whether a shard serves. Until it is active it answers COORDINATOR_LOAD_IN_PROGRESS."""

    CLOSED = "closed"
    LOADING = "loading"
    ACTIVE = "active"


class Requester(Protocol):
    """What sent a command and waits for the answer: mostly a request of a client."""

    def hang_up(self) -> None:
        """Close the connection: there will be no answer."""
        ...


class BrokerRequester(NamedTuple):
    """The broker itself as a requester: it has no connection, and gets NOT_COORDINATOR instead."""

    refuse: Callable[[ErrorCode], None]

    def hang_up(self) -> None:
        """Say that it may ask again: the shard has failed, or is another broker's."""
        self.refuse(ErrorCode.NOT_COORDINATOR)


@mypyc_attr(allow_interpreted_subclasses=True)
class Shard(Generic[CoreT]):
    """The state machine of one partition. All methods belong to the loop's thread."""

    def __init__(
        self,
        index: int,
        machine: Machine[CoreT],
        services: CoordinatorServices,
        *,
        note: Callable[[Event], None],
        load_soon: Callable[["Shard[CoreT]"], None],
        on_loaded: Callable[["Shard[CoreT]", float], None],
        inline_load_bytes: int = INLINE_LOAD_BYTES,
    ) -> None:
        """`note` gets the events of the core, `on_loaded` the seconds of a load; `load_soon` calls `load`."""
        self.index = index
        self.state = ShardState.CLOSED
        self.machine = machine
        self.core = machine.new_core()
        self._partitions = services.partitions
        self._flusher = services.flusher
        self._all_timers = services.timers
        self._clock = services.clock
        self._workers = services.workers
        self._note = note
        self._load_soon = load_soon
        self._on_loaded = on_loaded
        self._inline_load_bytes = inline_load_bytes
        self._partition: Partition | None = None
        self._waiting: dict[int, tuple[Requester, Respond]] = {}  # By request id.
        self._last_request_id = 0
        self._staged: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
        self._batches: list[bytes] = []  # Staged before a batch of a transaction, and such batches.
        self._pending: deque[PendingEffects] = deque()  # For the next flush.
        self._flushing: deque[deque[PendingEffects]] = deque()  # One entry per flush in flight.
        self._timers: set[object] = set()
        self._on_timer = self._timer_fired  # One bound method for all timers: 200 bytes a member less.
        self._unreplicated: deque[UnreplicatedWrites] = deque()

    # -- commands ---------------------------------------------------------------------------------------

    def check_active(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS, and load the shard, unless it is active. Raises: ApiError."""
        if self.state is not ShardState.ACTIVE:
            self._load_soon(self)
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def check_enough_replicas(self) -> None:
        """Raise COORDINATOR_NOT_AVAILABLE while fewer than `min.insync.replicas` are in sync.

        Raises: ApiError. Source: CoordinatorOperationExceptionHelper.
        """
        leadership = None if self._partition is None else self._partition.role.leadership
        if leadership is not None and not leadership.has_enough_replicas:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def ask(self, requester: Requester, respond: Respond) -> int:
        """Return a new request id for a command of `requester`; `respond` gets the reply to the command."""
        self._last_request_id += 1
        self._waiting[self._last_request_id] = (requester, respond)
        return self._last_request_id

    def submit(self, command: object) -> None:
        """Let the core decide `command`, stage its records, and run its effects in order."""
        try:
            decision = self.core.handle(command, self._clock.now_ms())
            self._carry_out(command, decision)
        except Exception:  # A supervisor: a bug in the core reloads its groups, and no others.
            log.exception(
                "a shard met an impossible state and is loaded again",
                topic=self.machine.topic,
                shard=self.index,
                command=type(command).__name__,
            )
            self._fail()

    def _carry_out(self, command: object, decision: Decision) -> None:
        if decision.transaction is not None:
            self._stage_transactional(decision, decision.transaction)
            self._pending.append((command, decision.effects))
        elif decision.records:
            self._stage(decision.records)
            self._pending.append((command, decision.effects))
        elif self._pending:
            self._pending.append((command, decision.effects))
        elif self._flushing:
            self._flushing[-1].append((command, decision.effects))
        else:
            self._perform(decision.effects)

    # -- records ----------------------------------------------------------------------------------------

    def _stage(self, records: tuple[Record, ...]) -> None:
        """Stage and replay the records. None is replayed unless all of them can be encoded."""
        if not self._staged and not self._batches:
            self._flusher.prepare(self._flush)
        now_ms = self._clock.wall_ms()
        encode = self.machine.encode
        encoded: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
        for record in records:
            key, value = encode(record)
            encoded.append((now_ms, key, value, ()))
        self._staged += encoded
        replay = self.core.replay
        for record in records:
            replay(record)

    def _stage_transactional(self, decision: Decision, write: TransactionalWrite) -> None:
        """Stage a batch of a transaction, or the marker that ends it, after all that was staged before."""
        if not self._staged and not self._batches:
            self._flusher.prepare(self._flush)
        core: Any = self.core  # Only group coordinators decide such writes.
        now_ms, encode = self._clock.wall_ms(), self.machine.encode
        records = [(now_ms, *encode(record), ()) for record in decision.records]
        if self._staged:
            self._seal()
        if write.end is None:
            batch = build_batch(
                records,
                producer_id=write.producer_id,
                producer_epoch=write.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
            for record in decision.records:
                core.replay_pending(write.producer_id, record)
        else:
            batch = build_transaction_marker(
                ControlType.COMMIT if write.end.is_commit else ControlType.ABORT,
                timestamp_ms=now_ms,
                producer_id=write.producer_id,
                producer_epoch=write.producer_epoch,
                coordinator_epoch=write.end.coordinator_epoch,
            )
            core.end_pending(write.producer_id, write.end.is_commit)
        self._batches.append(batch)

    def _seal(self) -> None:
        """Make record batches of the staged records."""
        staged, self._staged = self._staged, []
        for begin in range(0, len(staged), RECORDS_PER_BATCH_MAX):
            self._batches.append(build_batch(staged[begin : begin + RECORDS_PER_BATCH_MAX]))

    def _flush(self) -> None:
        """Append the staged records of this round, and request their flush."""
        if self._batches or len(self._staged) > RECORDS_PER_BATCH_MAX:
            if self._staged:
                self._seal()
            batches, self._batches = self._batches, []
        else:
            staged, self._staged = self._staged, []
            batches = [build_batch(staged)] if staged else []
        partition = self._partition
        if not batches or partition is None:
            return
        effects, self._pending = self._pending, deque()
        self._flushing.append(effects)
        try:
            for batch in batches:
                partition.append_own(batch)
        except StorageError as error:
            self._flushed(self.core, error)
            return
        if partition.role.leadership is not None and not self._unreplicated:
            self._note_unreplicated()
        self._flusher.request_commit(partition, partial(self._flushed, self.core))

    def _flushed(self, core: CoreT, error: StorageError | None) -> None:
        if core is not self.core:
            return  # The shard was dropped while the flush was in flight.
        if error is not None:
            if not isinstance(error, LedElsewhere):
                log.error("a shard's log failed", shard=self.index, error=str(error))
            self._fail()
            return
        for _, effects in self._flushing.popleft():
            self._perform(effects)

    # -- write timeouts ---------------------------------------------------------------------------------

    def _note_unreplicated(self) -> None:
        """Note what waits for other replicas by now, and check later whether it still waits."""
        now_ms, timeout_ms = self._clock.now_ms(), self.machine.write_timeout_ms
        flush = self._flushing[-1]
        self._unreplicated.append(UnreplicatedWrites(now_ms, flush, len(flush)))
        key = (self.machine.topic, self.index, "replicas")
        self._all_timers.set(
            key, now_ms + max(1, timeout_ms // CHECKS_PER_TIMEOUT), self._check_write_timeout
        )

    def _check_write_timeout(self) -> None:
        late: UnreplicatedWrites | None = None
        timeout_ms = self.machine.write_timeout_ms
        while self._unreplicated and self._clock.now_ms() - self._unreplicated[0].at_ms >= timeout_ms:
            late = self._unreplicated.popleft()
        if late is not None and any(each is late.last_flush for each in self._flushing):
            self._refuse(late)
        if self._flushing:
            self._note_unreplicated()
        else:
            self._unreplicated.clear()

    def _refuse(self, late: UnreplicatedWrites) -> None:
        """Refuse the commands that have waited too long. Their timers are set now; their events still wait.

        If another broker leads without these records, nothing was decided and there are no events.
        """
        gone = 0
        for flush in self._flushing:
            is_last = flush is late.last_flush
            entries = late.entries if is_last else len(flush)
            notes: list[PendingEffects] = []
            for _ in range(entries):
                command, effects = flush.popleft()
                self._refuse_command(command, effects)
                notes += [(None, (each,)) for each in effects if isinstance(each, Note)]
            flush.extendleft(reversed(notes))
            if is_last:
                gone = entries - len(notes)
                break
        self._unreplicated = deque(
            each._replace(entries=each.entries - gone) if each.last_flush is late.last_flush else each
            for each in self._unreplicated
        )

    def _refuse_command(self, command: Any, effects: tuple[Effect, ...]) -> None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        refused = None if command is None else self.machine.refusal(command, code)
        for effect in effects:
            if isinstance(effect, Note):
                continue
            if not isinstance(effect, Reply):
                self._perform((effect,))
            elif refused is not None and refused[0] == effect.request_id:
                self._answer(*refused)
            else:
                message = self.machine.refused_instead(effect.message, code)
                if message is None:
                    self._waiting[effect.request_id][0].hang_up()
                    del self._waiting[effect.request_id]
                else:
                    self._answer(effect.request_id, message)

    # -- effects ----------------------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Reply:
                _, respond = self._waiting.pop(effect.request_id)  # type: ignore[union-attr]
                try:
                    respond(effect.message)  # type: ignore[union-attr]
                except Exception:  # A supervisor: the other effects are for others.
                    log.exception("an answer could not be given", topic=self.machine.topic, shard=self.index)
            elif kind is SetTimer:
                key = effect.key  # type: ignore[union-attr]
                self._timers.add(key)
                self._all_timers.set_with_key((self.index, key), effect.deadline_ms, self._on_timer)  # type: ignore[union-attr]
            elif kind is CancelTimer:
                self._timers.discard(effect.key)  # type: ignore[union-attr]
                self._all_timers.cancel((self.index, effect.key))  # type: ignore[union-attr]
            else:
                assert isinstance(effect, Note)
                self._note(effect.event)

    def _timer_fired(self, name: tuple[int, object]) -> None:
        _, key = name
        self._timers.discard(key)
        self.submit(self.machine.timer_fired(key))

    # -- loading ----------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Replay the log into a new core, then serve. Raises: StorageError."""
        self.state = ShardState.LOADING
        began_ns = time.perf_counter_ns()
        partition = await self._partitions.opened(self.machine.topic, self.index)
        # A flush of records that this shard staged before may be running, or may have failed without
        # notice yet: its records would be replayed, and be gone with the next opening of the log.
        await self._partitions.between_writes(partition, _do_nothing)
        # What an earlier leader wrote, or this shard, may not be on every replica yet.
        await self._partitions.committed(partition)
        batches = partition.log.read_batches()
        if partition.log.size_bytes <= self._inline_load_bytes:
            core = loaded_core(self.machine, batches, self.index)
        else:
            throttle = Throttler(math.inf, self._workers.check_cancelled)  # Other shards serve meanwhile.
            core = await self._workers.in_thread(loaded_core, self.machine, batches, self.index, throttle)
        self._partition = partition
        self.core = core
        self.state = ShardState.ACTIVE
        self._carry_out(None, core.loaded(self._clock.now_ms()))
        self._on_loaded(self, (time.perf_counter_ns() - began_ns) / 1e9)

    def _fail(self) -> None:
        """Drop all that was decided since the last flush that worked, and load the shard again."""
        self.close()
        self._load_soon(self)

    def close(self) -> None:
        """Forget everything. Requests that wait are answered NOT_COORDINATOR."""
        self.state = ShardState.CLOSED
        for key in self._timers:
            self._all_timers.cancel((self.index, key))
        self._timers = set()
        self._refuse_all()
        self._waiting = {}
        self._staged = []
        self._batches = []
        self._pending = deque()
        self._flushing = deque()
        self._unreplicated = deque()
        self._all_timers.cancel((self.machine.topic, self.index, "replicas"))
        self._partition = None
        self.core = self.machine.new_core()

    def _refuse_all(self) -> None:
        """Answer NOT_COORDINATOR to commands that were not flushed, and to those that are parked.

        A member that waited for another one's command, as for the leader's sync, loses its connection.
        """
        for pending in (*self._flushing, self._pending):
            for command, _ in pending:
                refused = (
                    None if command is None else self.machine.refusal(command, ErrorCode.NOT_COORDINATOR)
                )
                if refused is not None:
                    self._answer(*refused)
        for effect in self.core.give_up(ErrorCode.NOT_COORDINATOR).effects:
            if isinstance(effect, Reply):
                self._answer(effect.request_id, effect.message)
        for requester, _ in self._waiting.values():
            requester.hang_up()

    def _answer(self, request_id: int, message: Message) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            waiting[1](message)


def _do_nothing() -> None:
    """Wait for the write before, and change nothing."""
