"""The consumer of a region's member: what is read, from where, and what is committed of it."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kohort.client.aio import Consumer, RebalanceListener
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import Assignments, PolledOffsets
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.listener import Partitions
from kohort.client.values import OffsetAndMetadata, TopicPartition
from kohort.queues.region.entries import MemberState, Offsets
from kohort.queues.region.membership import Membership
from kohort.queues.region.processing import Processing, name_of

logger = logging.getLogger(__name__)

POLL_MS = 50
WAIT_MS = 10
POLLS_QUEUED = 100  # The queue has room for so many polls.


class StartPosition(StrEnum):
    """Where a partition is read from that the region does not know yet."""

    BEGINNING = "beginning"
    END = "end"
    DEFAULT = "default"  # Where the group has committed, or the beginning.
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the members of a region read, by topics' names or by a pattern, and from where."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start_position: StartPosition = StartPosition.BEGINNING
    start_time_ms: int | None = None

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise ConfigurationError("a member reads topics, or those that match a pattern")
        if (self.start_position is StartPosition.TIME) != (self.start_time_ms is not None):
            raise ConfigurationError("StartPosition.TIME and start_time_ms need each other")


class Reading:
    """Has the consumer, which is in the group, and tells the core and the processing what comes of it."""

    def __init__(
        self,
        core: Membership,
        processing: Processing,
        subscription: Subscription,
        options: ConsumerOptions,
    ) -> None:
        self.consumer: Consumer[bytes, bytes] = Consumer(listener=_Listener(self), **options)
        self._core = core
        self._processing = processing
        self._subscription = subscription
        self._assignments = Assignments()  # Those of the last poll.
        self._queue_most = POLLS_QUEUED * options.get("max_poll_records", 500)

    def subscribe(self) -> None:
        """Be in the group from the next poll on."""
        self.consumer.subscribe(*self._subscription.topics, pattern=self._subscription.pattern)

    async def poll(self, *, is_reading: bool) -> None:
        """Read, if there is room; stay in the group in any case. Raises: KohortError."""
        reads = is_reading and len(self._processing) < self._queue_most
        paused = set(self.consumer.paused())
        wanted = {each for each in self.consumer.assignment() if not (reads and self._is_placed(each))}
        if more := wanted - paused:
            self.consumer.pause(*more)
        if fewer := paused - wanted:
            self.consumer.resume(*fewer)
        found = await self.consumer.poll(timeout_ms=POLL_MS if reads else WAIT_MS)
        self._core.generation_id = self.consumer.group_metadata().generation_id
        self._forget_old_topics(found.assignments)
        # What came with a rebalance within that poll is not where the region wants it, and is read again.
        records = [each for each in found if self._is_placed(TopicPartition(each.topic, each.partition))]
        if records and self._core.state is not MemberState.RESET_PENDING:
            ends = {(each.topic, each.partition): each.offset + 1 for each in records}
            self._core.read({f"{topic}-{number}": end for (topic, number), end in ends.items()})
            self._processing.put(records)

    def _forget_old_topics(self, assignments: Assignments) -> None:
        """Drop what is known of topics that were deleted and created again.

        Their partitions come as by an assignment, and still stand where the region has placed them.
        """
        before, self._assignments = self._assignments, assignments
        for each in self._core.placed_partitions:
            if assignments.has_come_since(partition_of(each), before.number):
                self._processing.forget(each)
                self._core.forget(each)

    def _is_placed(self, partition: TopicPartition) -> bool:
        return name_of(partition) in self._core.placed_partitions

    def place(self, offsets: Mapping[str, int]) -> None:
        """Read these partitions from these offsets."""
        for partition, offset in offsets.items():
            self.consumer.seek(partition_of(partition), offset)
            if not self._core.has_read(partition):  # What was read is processed further on.
                self._processing.noted[partition] = offset
        self._core.placed(offsets)

    async def first_offsets(self, partitions: Sequence[str]) -> Offsets:
        """Return where these partitions begin that the region does not know. Raises: KohortError."""
        asked = {partition_of(each): each for each in partitions}
        position, time_ms = self._subscription.start_position, self._subscription.start_time_ms
        if position in {StartPosition.END, StartPosition.TIME}:
            found = await self.consumer.end_offsets(*asked)
        else:
            found = await self.consumer.beginning_offsets(*asked)
        if time_ms is not None:  # After the ends: what comes in between is not skipped.
            times = await self.consumer.offsets_for_times(dict.fromkeys(asked, time_ms))
            found = {**found, **{each: known.offset for each, known in times.items() if known}}
        if position is StartPosition.DEFAULT:
            committed = await self.consumer.committed(*asked)
            found = {**found, **{each: known.offset for each, known in committed.items() if known}}
        return {name: found[each] for each, name in asked.items()}

    async def processed_offsets(self) -> Offsets:
        """Return the offset behind what was processed of each partition, or where its reading begins."""
        noted = self._processing.noted
        return {
            each: noted[each] if each in noted else await self.consumer.position(partition_of(each))
            for each in sorted(self._core.assigned)
        }

    async def commit(self, offsets: Offsets) -> None:
        """Commit these in one request, with polls meanwhile. Raises: KohortError."""
        outcome: list[KohortError | None] = []

        def note(_: object, error: KohortError | None) -> None:
            outcome.append(error)

        committed = {partition_of(each): OffsetAndMetadata(at) for each, at in offsets.items()}
        polled = PolledOffsets(committed, self._assignments.number)
        self.consumer.commit_async(polled, callback=note)
        while not outcome:
            await self.poll(is_reading=False)
        if outcome[0] is not None:
            raise outcome[0]

    def become_assigned(self, partitions: Partitions) -> None:
        """Hold new partitions until the region has told where they are read from."""
        if partitions:
            self.consumer.pause(*partitions)
        self._core.become_assigned(name_of(each) for each in partitions)
        if self._core.state is MemberState.RESET_PENDING:
            self._processing.drop()

    def become_revoked(self, partitions: Partitions) -> None:
        """Let partitions go."""
        self._core.become_revoked(name_of(each) for each in partitions)


class _Listener(RebalanceListener):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    async def on_assigned(self, partitions: Partitions) -> None:
        self._reading.become_assigned(partitions)

    async def on_revoked(self, partitions: Partitions) -> None:
        self._reading.become_revoked(partitions)

    async def on_lost(self, partitions: Partitions) -> None:
        self._reading.become_revoked(partitions)


def partition_of(name: str) -> TopicPartition:
    """Return the partition of that name."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def topics_of(partitions: Iterable[str]) -> set[str]:
    """Return the topics that these partitions are of."""
    return {partition_of(each).topic for each in partitions}
