"""A member of a region: its event side, which owns the consumer, beside the processing side."""

import logging
from collections.abc import Iterable
from enum import StrEnum
from secrets import token_hex
from typing import Unpack

import anyio

from kohort.client.aio import Consumer, RebalanceListener
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import Assignments, PolledOffsets
from kohort.client.errors import CommitFailedError, ConfigurationError, KohortError
from kohort.client.listener import Partitions
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.values import OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.queues.options import consumer_options
from kohort.queues.region.alone import one_error
from kohort.queues.region.coordinating import Region
from kohort.queues.region.entries import Asked, Report
from kohort.queues.region.log import RegionLog
from kohort.queues.region.membership import (
    Drain,
    Membership,
    MemberState,
    Poll,
    Propose,
    Restore,
    Seek,
    Stop,
)
from kohort.queues.region.opening import open_states
from kohort.queues.region.processing import Operator, Processing, name_of
from kohort.queues.region.view import next_command

logger = logging.getLogger(__name__)

POLL_MS = 50
WAIT_MS = 10
THROTTLED_MS = 100  # Between polls after a reset, until there is a record.
POLLS_QUEUED = 100  # The queue has room for so many polls.
LONGEST_WAIT_MS = 15_000


class RefusedError(KohortError):
    """This process is no member of the region."""


class Start(StrEnum):
    """Where a partition is read from that the region does not know yet."""

    BEGINNING = "beginning"
    END = "end"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"


class RegionMember:
    """await RegionMember(region, "a", operator, topics=["flights"], ...).run()

    Names are the region's: as many as it has members, and each time the same. A process that begins with a
    name goes on from the state that was saved under it. With Start.TIMESTAMP a partition begins with its
    first record of `start_timestamp_ms` or later, and at its end where there is none. With
    `checkpoint_records` a member asks for a checkpoint whenever it has processed so many since the last one.
    """

    def __init__(
        self,
        region: Region,
        name: str,
        operator: Operator,
        *,
        topics: Iterable[str],
        start: Start = Start.BEGINNING,
        start_timestamp_ms: int | None = None,
        checkpoint_records: int = 0,
        reset_timeout_ms: int = 60_000,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if (start is Start.TIMESTAMP) != (start_timestamp_ms is not None):
            raise ConfigurationError("start=Start.TIMESTAMP and start_timestamp_ms need each other")
        if checkpoint_records < 0:
            raise ConfigurationError(f"checkpoint_records is {checkpoint_records}: 0 for none, or more")
        self.region = region
        self.name = name
        self.start = start
        self.start_timestamp_ms = start_timestamp_ms
        self.checkpoint_records = checkpoint_records
        self._options = options
        self._topics = tuple(topics)
        self._processing = Processing(operator)
        self._stopping = False
        self._told: Report | None = None
        self._saved: list[str] = []
        self._assignments = Assignments()  # Those of the last poll.
        self._counted = 0  # What had been processed at the last drain, or when a checkpoint was asked for.
        self._drain_ms_last = self._drain_ms_most = 0.0
        self._queue_most = POLLS_QUEUED * options.get("max_poll_records", 500)
        max_poll_ms = options.get("max_poll_interval_ms", 300_000)
        self._timeout_ms = min(reset_timeout_ms / 2, max_poll_ms / 2, LONGEST_WAIT_MS)

    def stop(self) -> None:
        """Let `run` end soon. What was processed since the last checkpoint is processed again by others."""
        self._stopping = True

    def metrics(self) -> dict[str, float]:
        """Return how long drains took, in milliseconds, and what this member has now.

        Topics are consumed that it has partitions of, which are not all that it subscribes to.
        """
        core: Membership | None = getattr(self, "_core", None)
        assigned = core.assigned if core is not None else set()
        return {
            "drain_ms_last": self._drain_ms_last,
            "drain_ms_most": self._drain_ms_most,
            "partitions_assigned": len(assigned),
            "topics_consumed": len({partition_of(each).topic for each in assigned}),
            "queued": len(self._processing),
        }

    async def run(self) -> None:
        """Be a member until `stop`. Once. Raises: RefusedError; KohortError for what no waiting mends."""
        group_id = f"{self.region.name}-members"
        async with (
            one_error(),
            RegionLog(self.region, self._options) as self._log,
            open_states(self.region, self._options) as self._states,
        ):
            before = self._log.view.reports.get(self.name)
            number = 1 if before is None else before.number + 1
            self._core = Membership(self.name, self.region.index, number, token_hex(8))
            await self._tell()
            self._consumer: Consumer[bytes, bytes] = Consumer(
                *self._topics, listener=_Listener(self), **consumer_options(self._options, group_id)
            )
            async with self._consumer, anyio.create_task_group() as tasks:
                tasks.start_soon(self._processing.run)
                await self._be_a_member()
                tasks.cancel_scope.cancel()

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
        if self._processing.failure is not None and core.state is not MemberState.RESET_PENDING:
            core.want_reset(forced=False, reason=f"{self.name}: {self._processing.failure!r}")
        action = core.next_action(self._log.view)
        match action:
            case Stop(reason=reason):
                raise RefusedError(reason)
            case Restore(attempt=attempt, saved=saved):
                await self._restore(attempt, saved)
            case Seek(offsets=offsets):
                self._place(dict(offsets))
            case Propose(partitions=partitions):
                core.proposed(await self._first_offsets(partitions))
            case Drain(sequence_id=sequence_id):
                await self._drain(sequence_id)
        await self._tell()
        if isinstance(action, Poll):
            self._processing.go_on()
            await self._ask_in_time()
            if core.is_throttled:
                await anyio.sleep(THROTTLED_MS / 1000)
        await self._poll(is_reading=isinstance(action, Poll))

    async def _tell(self) -> None:
        report = self._core.report
        if report != self._told:
            await self._log.write(report)
            self._told = report

    async def _ask_in_time(self) -> None:
        """Ask for a checkpoint when there is enough that a reset would have processed again."""
        count = self._processing.count
        if self.checkpoint_records and count - self._counted >= self.checkpoint_records:
            await self._log.write(next_command(self._log.view, Asked.CHECKPOINT))
            self._counted = count

    async def _poll(self, *, is_reading: bool) -> bool:
        """Read, if there is room; stay in the group in any case. Return whether a topic was created again."""
        reads = is_reading and len(self._processing) < self._queue_most
        paused = set(self._consumer.paused())
        wanted = {each for each in self._consumer.assignment() if not (reads and self._is_placed(each))}
        if more := wanted - paused:
            self._consumer.pause(*more)
        if fewer := paused - wanted:
            self._consumer.resume(*fewer)
        found = await self._consumer.poll(timeout_ms=POLL_MS if reads else WAIT_MS)
        is_another = self._forget_old_topics(found.assignments)
        # What came with a rebalance within that poll is not where the region wants it, and is read again.
        records = [each for each in found if self._is_placed(TopicPartition(each.topic, each.partition))]
        if records and self._core.state is not MemberState.RESET_PENDING:
            self._core.read()
            self._processing.put(records)
        return is_another

    def _forget_old_topics(self, assignments: Assignments) -> bool:
        """Drop what is known of topics that were deleted and created again; return whether there were any.

        Their partitions come as by an assignment, and still stand where the region has placed them.
        """
        before, self._assignments = self._assignments, assignments
        remade = [
            each
            for each in self._core.placed_partitions
            if assignments.has_come_since(partition_of(each), before.number)
        ]
        for each in remade:
            self._processing.forget(each)
        return bool(remade)

    def _is_placed(self, partition: TopicPartition) -> bool:
        return name_of(partition) in self._core.placed_partitions

    async def _restore(self, attempt: int, saved: str | None) -> None:
        state = None if saved is None else await self._states.load(saved)
        await self._processing.restore(state)
        await self._drop_all_but(saved)
        self._core.restored(attempt)

    async def _drop_all_but(self, saved: str | None) -> None:
        """Drop what was saved for checkpoints that are retired, or never were."""
        for each in self._saved:
            if each != saved:
                await self._states.drop(each)
        self._saved = [] if saved is None else [saved]

    def _place(self, offsets: dict[str, int]) -> None:
        for partition, offset in offsets.items():
            self._consumer.seek(partition_of(partition), offset)
        self._processing.noted.update(offsets)
        self._core.placed(offsets)

    async def _first_offsets(self, partitions: tuple[str, ...]) -> dict[str, int]:
        asked = {partition_of(each): each for each in partitions}
        if self.start in {Start.END, Start.TIMESTAMP}:
            found = await self._consumer.end_offsets(*asked)
        else:
            found = await self._consumer.beginning_offsets(*asked)
        if self.start_timestamp_ms is not None:  # After the ends: what comes in between is not skipped.
            times = await self._consumer.offsets_for_times(dict.fromkeys(asked, self.start_timestamp_ms))
            found = {**found, **{each: known.offset for each, known in times.items() if known}}
        if self.start is Start.COMMITTED:
            committed = await self._consumer.committed(*asked)
            found = {**found, **{each: known.offset for each, known in committed.items() if known}}
        return {name: found[each] for each, name in asked.items()}

    async def _drain(self, sequence_id: int) -> None:
        """Contribute to a checkpoint, or ask for a reset: a drain succeeds as a whole or not at all.

        Nothing is processed from here until the region goes on: what is queued waits, however much it is.
        The group may give and take partitions meanwhile. What was drained is then not what we have: the next
        step looks what is to be done instead.
        """
        began_ms, core = monotonic_ms(), self._core
        generation_id = self._generation_id

        def is_void() -> bool:
            has_moved = core.has_unplaced or self._generation_id != generation_id
            return has_moved or core.state is MemberState.RESET_PENDING

        try:
            with anyio.fail_after(self._timeout_ms / 1000):
                await self._processing.hold()
                if self._processing.failure is not None or is_void():
                    return  # After a failure the next step asks for a reset.
                offsets = {each: await self._processed_offset(each) for each in core.assigned}
                if is_void():
                    return
                if offsets:
                    committed = {partition_of(each): OffsetAndMetadata(at) for each, at in offsets.items()}
                    await self._consumer.commit(PolledOffsets(committed, self._assignments.number))
                key = f"{self.name}/{sequence_id}/{core.token}"
                saved = await self._states.save(key, self._processing.save(sequence_id))
        except (KohortError, TimeoutError) as error:
            if isinstance(error, CommitFailedError):
                is_another = await self._poll(is_reading=False)
                if is_another or error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                    return  # The next drain commits offsets of the new topic.
            core.want_reset(forced=False, reason=f"{self.name} did not drain: {error!r}")
            return
        if is_void():
            await self._states.drop(saved)
            return
        view = self._log.view.state
        await self._drop_all_but(None if view is None else view.saved.get(self.name))
        self._saved.append(saved)
        self._counted = self._processing.count
        core.drained(sequence_id, generation_id, offsets, saved)
        self._drain_ms_last = monotonic_ms() - began_ms
        self._drain_ms_most = max(self._drain_ms_most, self._drain_ms_last)

    async def _processed_offset(self, partition: str) -> int:
        """Return the offset behind the records that were processed; where none came, the reading begins."""
        noted = self._processing.noted.get(partition)
        return await self._consumer.position(partition_of(partition)) if noted is None else noted

    @property
    def _generation_id(self) -> int:
        return self._consumer.group_metadata().generation_id

    def become_assigned(self, partitions: Partitions) -> None:
        """Hold new partitions until the region has told where they are read from."""
        if partitions:
            self._consumer.pause(*partitions)
        self._core.become_assigned(name_of(each) for each in partitions)

    def become_revoked(self, partitions: Partitions) -> None:
        """Let partitions go."""
        self._core.become_revoked(name_of(each) for each in partitions)
        if self._core.state is MemberState.RESET_PENDING:
            self._processing.drop()


class _Listener(RebalanceListener):
    def __init__(self, member: RegionMember) -> None:
        self._member = member

    async def on_assigned(self, partitions: Partitions) -> None:
        self._member.become_assigned(partitions)

    async def on_revoked(self, partitions: Partitions) -> None:
        self._member.become_revoked(partitions)

    async def on_lost(self, partitions: Partitions) -> None:
        self._member.become_revoked(partitions)


def partition_of(name: str) -> TopicPartition:
    """Return the partition of that name."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
