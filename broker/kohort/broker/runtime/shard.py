"""One `__consumer_offsets` partition: its group core, its log, and the order between the two.

A command is decided at once and its records are replayed at once, so that the next command sees them;
they are staged, one record batch for all commands of a round, and what the core wants done after them
waits for the flush. A decision without records is carried out at once, unless something before it
still waits: answers never overtake each other. A flush that fails drops the core with all it decided
since the last one that worked, and the shard is loaded again from its log.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from kohort.broker.group import (
    NO_REQUEST,
    CancelTimer,
    Command,
    Decision,
    Effect,
    GroupCoordinator,
    Note,
    Record,
    Reply,
    SetTimer,
    TimerFired,
    TopicsDeleted,
    refusal,
)
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.partitions.pace import Pace
from kohort.broker.runtime.events import note_event
from kohort.broker.runtime.loading import replay_log
from kohort.broker.runtime.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.offsets_topic import encode_key, encode_value
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.partitions.partition import Partition

Respond = Callable[[Message], None]
Owed = tuple[Command | None, tuple[Effect, ...]]
"""What is to be done after a flush, and the command that it answers: to refuse that if the flush fails."""

RECORDS_PER_BATCH_MAX = 4_096
INLINE_LOAD_BYTES = 64 * 1024  # A log of this size is replayed in the loop: quicker than a thread hop.

log = structlog.get_logger("kohort.group")


class ShardState(Enum):
    """What a shard can answer: COORDINATOR_LOAD_IN_PROGRESS until it is active."""

    CLOSED = "closed"
    LOADING = "loading"
    ACTIVE = "active"


class Shard:
    """The groups whose ids hash to one partition. All methods belong to the loop's thread."""

    def __init__(self, broker: "Broker", index: int) -> None:
        self.index = index
        self.state = ShardState.CLOSED
        self.core = GroupCoordinator(broker.group_config)
        self._broker = broker
        self._partition: Partition | None = None
        self._waiting: dict[int, tuple[Request, Respond]] = {}  # Who asked, by request id.
        self._last_request_id = 0
        self._staged: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
        self._owed: deque[Owed] = deque()  # For the next flush.
        self._flushing: deque[deque[Owed]] = deque()  # One entry per flush under way.
        self._timers: set[object] = set()

    # -- asking -----------------------------------------------------------------------------------------

    def check_active(self) -> None:
        """Raise what Kafka answers while the shard cannot. Raises: ApiError."""
        if self.state is not ShardState.ACTIVE:
            self._broker.coordinators.load_soon(self)
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def ask(self, request: Request, respond: Respond) -> int:
        """Return a new id for what `request` asks of the core; `respond` gets the reply to it."""
        self._last_request_id += 1
        self._waiting[self._last_request_id] = (request, respond)
        return self._last_request_id

    def submit(self, command: Command) -> None:
        """Let the core decide `command`, and do what it wants done, in order."""
        broker = self._broker
        try:
            decision = self.core.handle(command, broker.clock.now_ms())
        except AssertionError:
            log.exception("a shard met an impossible state and is loaded again", shard=self.index)
            self._fail()
            return
        self._carry_out(command, decision)

    def _carry_out(self, command: Command | None, decision: Decision) -> None:
        if decision.records:
            self._stage(decision.records)
            self._owed.append((command, decision.effects))
        elif self._owed:
            self._owed.append((command, decision.effects))
        elif self._flushing:
            self._flushing[-1].append((command, decision.effects))
        else:
            self._perform(decision.effects)

    # -- records ----------------------------------------------------------------------------------------

    def _stage(self, records: tuple[Record, ...]) -> None:
        if not self._staged:
            self._broker.flusher.prepare(self._flush)
        now_ms = self._broker.clock.now_ms()
        replay = self.core.replay
        for record in records:
            replay(record)
            value = record.value
            self._staged.append(
                (now_ms, encode_key(record.key), None if value is None else encode_value(value), ())
            )

    def _flush(self) -> None:
        """Append what the round has staged as record batches, and ask for their flush."""
        staged, self._staged = self._staged, []
        if not staged or self._partition is None:
            return
        partition = self._partition
        effects, self._owed = self._owed, deque()
        self._flushing.append(effects)
        try:
            for begin in range(0, len(staged), RECORDS_PER_BATCH_MAX):
                partition.append_own(build_batch(staged[begin : begin + RECORDS_PER_BATCH_MAX]))
        except StorageError as error:
            self._flushed(self.core, error)
            return
        self._broker.flusher.request(partition, partial(self._flushed, self.core))

    def _flushed(self, core: GroupCoordinator, error: StorageError | None) -> None:
        if core is not self.core:
            return  # The shard was dropped while the flush was under way.
        if error is not None:
            log.error("a shard's log failed", shard=self.index, error=str(error))
            self._fail()
            return
        for _, effects in self._flushing.popleft():
            self._perform(effects)

    # -- effects ----------------------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Reply:
                _, respond = self._waiting.pop(effect.request_id)  # type: ignore[union-attr]
                respond(effect.message)  # type: ignore[union-attr]
            elif kind is SetTimer:
                self._set_timer(effect)  # type: ignore[arg-type]
            elif kind is CancelTimer:
                self._timers.discard(effect.key)  # type: ignore[union-attr]
                self._broker.timers.cancel((self.index, effect.key))  # type: ignore[union-attr]
            else:
                assert isinstance(effect, Note)
                note_event(self._broker.counters, effect.event)
                self._broker.group_events.note(effect.event)

    def _set_timer(self, timer: SetTimer) -> None:
        self._timers.add(timer.key)
        self._broker.timers.set(
            (self.index, timer.key), timer.deadline_ms, partial(self._timer_fired, timer.key)
        )

    def _timer_fired(self, key: object) -> None:
        self._timers.discard(key)
        self.submit(TimerFired(key))  # type: ignore[arg-type]  # a key that the core gave

    # -- loading ----------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Replay the log into a new core, then serve. Raises: StorageError."""
        self.state = ShardState.LOADING
        began_ns = time.perf_counter_ns()
        partitions = self._broker.partitions
        partition = await partitions.opened(OFFSETS_TOPIC, self.index)
        # A flush of what this shard staged before may be under way, or may have failed without anybody
        # having said so yet: what it wrote would be replayed, and be gone with the next opening of the log.
        await partitions.between_writes(partition, _look_on)
        core = GroupCoordinator(self._broker.group_config)
        batches = partition.log.read_batches()
        if partition.log.size_bytes <= INLINE_LOAD_BYTES:
            replay_log(core, batches, self.index)
        else:
            rest = Pace(math.inf, trio.from_thread.check_cancelled)  # Other shards serve meanwhile.
            await trio.to_thread.run_sync(replay_log, core, batches, self.index, rest)
        self._partition = partition
        self.core = core
        self.state = ShardState.ACTIVE
        self._broker.counters.shard_loaded((time.perf_counter_ns() - began_ns) / 1e9)
        self._carry_out(None, core.loaded(self._broker.clock.now_ms()))
        self._forget_deleted_topics()

    def _forget_deleted_topics(self) -> None:
        """Drop offsets of topics that were deleted while nobody here was loaded to hear of it."""
        topics = self._broker.metadata.snapshot().topics
        gone = {name for group in self.core.groups.values() for name in group.offsets if name not in topics}
        if gone:
            self.submit(TopicsDeleted(frozenset(gone)))

    def _fail(self) -> None:
        """Drop everything since the last flush that worked, and load the shard again."""
        self.close()
        self._broker.coordinators.load_soon(self)

    def close(self) -> None:
        """Forget the groups. Who waits is told to look for the coordinator again."""
        self.state = ShardState.CLOSED
        for key in self._timers:
            self._broker.timers.cancel((self.index, key))
        self._timers = set()
        self._refuse_all()
        self._waiting = {}
        self._staged = []
        self._owed = deque()
        self._flushing = deque()
        self._partition = None
        self.core = GroupCoordinator(self._broker.group_config)

    def _refuse_all(self) -> None:
        """Answer NOT_COORDINATOR to what was not flushed and to what is parked.

        A member whose answer hung on another's command, such as the leader's sync, loses its connection.
        """
        for owed in (*self._flushing, self._owed):
            for command, _ in owed:
                message = None if command is None else refusal(command, ErrorCode.NOT_COORDINATOR)
                if message is not None:
                    self._answer(getattr(command, "request_id", NO_REQUEST), message)
        for effect in self.core.give_up(ErrorCode.NOT_COORDINATOR).effects:
            if isinstance(effect, Reply):
                self._answer(effect.request_id, effect.message)
        for request, _ in self._waiting.values():
            request.connection.close()

    def _answer(self, request_id: int, message: Message) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            waiting[1](message)


def _look_on() -> None:
    """Change nothing."""
