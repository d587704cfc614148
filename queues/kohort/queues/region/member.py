"""A member of a region: its event side, which owns the consumer, beside the operator in its executor."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import TypeVar, Unpack, cast

import anyio

from kohort.client.aio import Admin
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError, ItemsError, KohortError
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.values import TopicDescription
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import ZERO_UUID
from kohort.queues.options import consumer_options, shared_options
from kohort.queues.region.alone import one_error
from kohort.queues.region.coordinating import Region
from kohort.queues.region.entries import Asked, MemberState, Report, TopicIds
from kohort.queues.region.executors import Isolation, Operator, OperatorError, executor_for
from kohort.queues.region.log import RegionLog
from kohort.queues.region.membership import Drain, LookUp, Membership, Poll, Propose, Restore, Seek, Stop
from kohort.queues.region.opening import open_states
from kohort.queues.region.processing import Processing
from kohort.queues.region.reading import Reading, StartPosition, Subscription, topics_of
from kohort.queues.region.standing import checkpoint_age_ms, status_of
from kohort.queues.region.states import StateLostError
from kohort.queues.region.view import next_command

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

RETRY_S = 0.1
_MOVED = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
THROTTLED_MS = 100  # Between polls after a reset, until there is a record.
LONGEST_WAIT_MS = 15_000
ASSIGNOR = "cooperative-sticky"  # Others keep what they read when a member comes or goes.


class RefusedError(KohortError):
    """This process is no member of the region."""


class RegionMember:
    """await RegionMember(region, "a", operator, topics=["flights"], ...).run()

    Names are the region's: as many as it has members, and each time the same. A process that begins with a
    name goes on from the state that was saved under it. The name is the member's group.instance.id, too, so
    that it has its partitions again at once. With StartPosition.TIME a partition begins with its first record
    of `start_time_ms` or later, and at its end where there is none. With `checkpoint_records` a member asks
    for a checkpoint whenever it has processed so many since the last one.
    """

    def __init__(
        self,
        region: Region,
        name: str,
        operator: Operator,
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        start_position: StartPosition = StartPosition.BEGINNING,
        start_time_ms: int | None = None,
        checkpoint_records: int = 0,
        isolation: Isolation = Isolation.THREAD,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if checkpoint_records < 0:
            raise ConfigurationError(f"checkpoint_records is {checkpoint_records}: 0 for none, or more")
        self.region = region
        self.name = name
        self.checkpoint_records = checkpoint_records
        self._subscription = Subscription(tuple(topics), pattern, start_position, start_time_ms)
        self._options = options
        self._executor = executor_for(operator, isolation)
        self._processing = Processing(self._executor)
        self._stopping = False
        self._told: Report | None = None
        self._saved: dict[str, int] = {}  # By where a state is: the checkpoint that it was saved for.
        self._counted = 0  # What had been processed at the last drain, or when a checkpoint was asked for.
        self._drain_ms_last = self._drain_ms_most = 0.0
        max_poll_ms = options.get("max_poll_interval_ms", 300_000)
        self._timeout_s = min(region.reset_timeout_ms / 2, max_poll_ms / 2, LONGEST_WAIT_MS) / 1000

    def stop(self) -> None:
        """Let `run` end soon. What was processed since the last checkpoint is processed again by others."""
        self._stopping = True

    @property
    def state(self) -> MemberState:
        """How this member stands."""
        core: Membership | None = getattr(self, "_core", None)
        return MemberState.SUBSCRIBED if core is None else core.state

    def metrics(self) -> dict[str, float]:
        """Return how long drains took, in milliseconds, and what this member has now.

        Topics are consumed that it has partitions of, which are not all that it subscribes to. What the
        region says is there once it was read: resets are counted since the region began.
        """
        core: Membership | None = getattr(self, "_core", None)
        assigned = core.assigned if core is not None else set()
        log: RegionLog | None = getattr(self, "_log", None)
        state = None if log is None else log.view.state
        return {
            "drain_ms_last": self._drain_ms_last,
            "drain_ms_most": self._drain_ms_most,
            "partitions_assigned": len(assigned),
            "topics_consumed": len(topics_of(assigned)),
            "queued": len(self._processing),
            "processed": self._processing.count,
            "resets": max(0, state.attempt - 1) if state is not None else 0,
            "consecutive_resets": state.consecutive_resets if state is not None else 0,
            "checkpoint": state.completed if state is not None else 0,
        }

    @property
    def checkpoint_age_ms(self) -> int | None:
        """How long ago the region's last checkpoint was, as its log tells; None before there was one."""
        return checkpoint_age_ms(getattr(self, "_log", None))

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the members' group, and does not stop: partitions may be still to come."""
        core: Membership | None = getattr(self, "_core", None)
        return not self._stopping and core is not None and core.generation_id >= 0

    def status(self) -> Mapping[str, object]:
        """Return how this member and its region stand."""
        core: Membership | None = getattr(self, "_core", None)
        assigned = set() if core is None else core.assigned
        return {
            "member": self.name,
            "state": self.state,
            "generation_id": -1 if core is None else core.generation_id,
            "partitions": sorted(assigned),
            **self.metrics(),
            **status_of(self.region, getattr(self, "_log", None)),
        }

    @property
    def phase(self) -> str:
        """What the region does, as far as this member has read; "" before it has read anything."""
        log: RegionLog | None = getattr(self, "_log", None)
        return "" if log is None or log.view.state is None else log.view.state.phase

    async def run(self) -> None:
        """Be a member until `stop`. Once. Raises: RefusedError; KohortError for what no waiting mends."""
        async with one_error(), AsyncExitStack() as stack:
            self._log = await stack.enter_async_context(RegionLog(self.region, self._options))
            self._states = await stack.enter_async_context(open_states(self.region, self._options))
            self._admin = await stack.enter_async_context(Admin(**shared_options(self._options)))
            await stack.enter_async_context(self._executor)
            before = self._log.view.reports.get(self.name)
            number = 1 if before is None else before.number + 1
            settings = self._consumer_options()
            self._core = Membership(
                self.name,
                self.region.index,
                number,
                token_hex(8),
                group_id=settings.get("group_id") or "",
                group_instance_id=settings.get("group_instance_id") or "",
            )
            self._reading = self._reader()
            await self._tell()
            await stack.enter_async_context(self._reading.consumer)
            self._reading.subscribe()
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            self._tasks.start_soon(self._processing.run)
            await self._be_a_member()
            self._tasks.cancel_scope.cancel()

    def _reader(self) -> Reading:
        return Reading(self._core, self._processing, self._subscription, self._consumer_options())

    def _consumer_options(self) -> ConsumerOptions:
        defaults: ConsumerOptions = {"group_instance_id": self.name}
        if self._options.get("group_protocol", "classic") == "classic":
            defaults["partition_assignment_strategy"] = ASSIGNOR
        options: ConsumerOptions = {**defaults, **self._options}
        group_id = options.pop("group_id", None) or self.region.group_id
        return consumer_options(options, group_id)

    async def _be_a_member(self) -> None:
        backoff = Backoff(100, 5_000)
        while not self._stopping:
            try:
                await self._step()
                backoff.reset()
            except KohortError as error:
                if not error.retriable:
                    raise
                logger.warning("%s of region %s waits: %s", self.name, self.region.name, str(error))
                await anyio.sleep(backoff.next_ms() / 1000)

    async def _step(self) -> None:
        core = self._core
        if self._processing.failure and core.state is not MemberState.RESET_PENDING:
            core.want_reset(forced=False, reason=f"{self.name}: {self._processing.failure}")
        action = core.next_action(self._log.view)
        match action:
            case Stop(reason=reason):
                raise RefusedError(reason)
            case Restore(attempt=attempt, saved=saved):
                await self._restore(attempt, saved)
            case LookUp(topics=topics):
                core.looked_up(await self._topic_ids(topics))
            case Seek(offsets=offsets):
                self._reading.place(offsets)
            case Propose(partitions=partitions):
                core.proposed(await self._reading.first_offsets(partitions))
            case Drain(sequence_id=sequence_id):
                await self._drain(sequence_id)
        await self._tell()
        if isinstance(action, Poll):
            self._processing.go_on()
            await self._ask_in_time()
            if core.is_throttled:
                await anyio.sleep(THROTTLED_MS / 1000)
        await self._reading.poll(is_reading=isinstance(action, Poll))

    async def _tell(self) -> None:
        report = self._core.report
        if report != self._told:
            if self._told is None or report.state is not self._told.state:
                logger.info("%s of region %s: %s", self.name, self.region.name, report.state)
            await self._log.write(report)
            self._told = report

    async def _ask_in_time(self) -> None:
        """Ask for a checkpoint when there is enough that a reset would have processed again."""
        count = self._processing.count
        if self.checkpoint_records and count - self._counted >= self.checkpoint_records:
            await self._log.write(next_command(self._log.view, Asked.CHECKPOINT))
            self._counted = count

    async def _topic_ids(self, topics: tuple[str, ...]) -> TopicIds:
        """Return the ids of those of these topics that exist; "" for those that have none."""
        try:
            found = dict(await self._admin.describe_topics(*topics))
        except ItemsError as error:
            if any(each.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in error.errors.values()):
                raise
            found = cast(dict[str, TopicDescription], error.results)
        ids = {name: str(each.topic_id) for name, each in found.items() if each.topic_id != ZERO_UUID}
        return {**dict.fromkeys(topics, ""), **ids}

    async def _beside_polls(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Return what it returns; the member stays in its group meanwhile.

        Raises: TimeoutError if it takes too long; OperatorError; KohortError.
        """
        outcome: list[Result] = []
        failure: list[Exception] = []
        ended = anyio.Event()
        scope = anyio.CancelScope()

        async def run() -> None:
            try:
                with scope, anyio.fail_after(self._timeout_s):
                    outcome.append(await function())
            except (KohortError, OperatorError, TimeoutError) as error:
                failure.append(error)
            finally:
                ended.set()

        self._tasks.start_soon(run)
        try:
            while not ended.is_set():
                await self._reading.poll(is_reading=False)
        finally:
            scope.cancel()
        if failure:
            raise failure[0]
        return outcome[0]

    async def _restore(self, attempt: int, saved: str | None) -> None:
        """Begin an attempt; one whose state does not come back in time is a failure of the region."""
        try:
            state = None if saved is None else await self._beside_polls(lambda: self._states.load(saved))
            await self._beside_polls(lambda: self._processing.restore(state, self._timeout_s / 2))
        except (OperatorError, StateLostError) as error:
            self._core.restore_failed(attempt, f"{self.name} did not restore its state: {error}")
            return
        except TimeoutError:
            reason = f"{self.name} did not restore its state within {self._timeout_s:g} s"
            self._core.restore_failed(attempt, reason)
            return
        await self._drop_states(kept=saved)
        self._core.restored(attempt)

    async def _drop_states(self, kept: str | None, sequence_id: int = -1) -> None:
        """Drop what was saved for checkpoints that are retired, or never were."""
        for each, saved_for in tuple(self._saved.items()):
            if each != kept and saved_for != sequence_id:
                await self._states.drop(each)
                del self._saved[each]
        if kept is not None:
            self._saved.setdefault(kept, -1)

    async def _drain(self, sequence_id: int) -> None:
        """Contribute to a checkpoint, or ask for a reset: a drain succeeds as a whole or not at all.

        Nothing is processed from here until the region goes on: what is queued waits, however much it is.
        The group may give and take partitions meanwhile: then the drain is put off, and the next step looks
        what is to be done instead.
        """
        began_ms = monotonic_ms()
        try:
            has_drained = await self._try_to_drain(sequence_id)
        except (OperatorError, TimeoutError, KohortError) as error:
            if isinstance(error, KohortError) and (error.retriable or error.code in _MOVED):
                logger.info("%s of region %s drains again: %s", self.name, self.region.name, error)
                await anyio.sleep(RETRY_S)
                return
            why = f"not within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else repr(error)
            self._core.want_reset(forced=False, reason=f"{self.name} did not drain: {why}")
            return
        if has_drained:
            self._counted = self._processing.count
            self._drain_ms_last = monotonic_ms() - began_ms
            self._drain_ms_most = max(self._drain_ms_most, self._drain_ms_last)

    async def _try_to_drain(self, sequence_id: int) -> bool:
        """Return whether what was processed is committed, saved and contributed."""
        core = self._core
        generation_id = core.generation_id

        def is_void() -> bool:
            has_moved = core.is_moving or core.generation_id != generation_id
            return has_moved or core.state is MemberState.RESET_PENDING or bool(self._processing.failure)

        await self._beside_polls(self._processing.hold)
        if is_void():
            return False  # After a failure the next step asks for a reset.
        offsets = await self._reading.processed_offsets()
        if offsets:
            with anyio.fail_after(self._timeout_s):
                await self._reading.commit(offsets)
        if is_void():
            return False
        key = f"{self.name}/{sequence_id}/{generation_id}/{core.token}"
        saved = await self._beside_polls(lambda: self._save(sequence_id, key))
        if is_void():
            await self._states.drop(saved)
            return False
        view = self._log.view.state
        await self._drop_states(None if view is None else view.saved.get(self.name), sequence_id)
        self._saved[saved] = sequence_id
        core.drained(sequence_id, generation_id, offsets, saved)
        return True

    async def _save(self, sequence_id: int, key: str) -> str:
        return await self._states.save(key, await self._processing.save(sequence_id))
