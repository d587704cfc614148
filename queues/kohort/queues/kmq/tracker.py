"""Delivers again what was taken and not acknowledged in time."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Unpack

import anyio

from kohort.client.aio import Admin, Consumer, Producer, RebalanceListener
from kohort.client.config import ConsumerConfig, ConsumerOptions
from kohort.client.consumer_records import Assignments, PolledOffsets
from kohort.client.errors import CommitFailedError, KohortError
from kohort.client.listener import Partitions
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.values import AnyRecord, OffsetAndMetadata, TopicPartition
from kohort.queues.clock import wall_ms
from kohort.queues.joining import generation_of, has_joined
from kohort.queues.kmq.counters import NONE, TrackerCounters, decode_counters
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.redelivering import Redeliverer
from kohort.queues.kmq.topics import keeping_of
from kohort.queues.kmq.tracking import Permission, TrackedPartition
from kohort.queues.options import consumer_options, hasty_producer_options, reader_options, shared_options

logger = logging.getLogger(__name__)

POLL_MS = 200
COMMIT_EVERY_MS = 1_000
BATCH_MAX = 128  # So many are delivered again before the markers are read on.
WARN_EVERY_MS = 60_000
REFUSED_MS = 10_000  # What no topic takes is tried again so much later: somebody may have changed a limit.


@dataclass(slots=True)
class _Tracked:
    """A partition that is ours, and what was committed of it."""

    state: TrackedPartition
    counters: TrackerCounters = NONE
    committed: OffsetAndMetadata | None = None
    warned_at_ms: int | None = None


class RedeliveryTracker:
    """One of the trackers of a queue: together they are a group over the partitions of the markers topic.

    await RedeliveryTracker(queue, bootstrap_servers="localhost:9092").run()

    Everything it knows is read from the markers topic, from where the group has committed: another one
    takes over where one dies. Start as many as you like, up to one a partition.
    """

    def __init__(self, queue: Queue, **options: Unpack[ConsumerOptions]) -> None:
        self.queue = queue
        self._options = options
        self._consumer: Consumer[bytes, bytes] = Consumer(
            queue.markers_topic,
            listener=_Listener(self),
            **consumer_options(options, queue.redelivery_group_id),
        )
        self._tracked: dict[TopicPartition, _Tracked] = {}
        self._told = NONE
        self._session_ms = options.get("session_timeout_ms", ConsumerConfig().session_timeout_ms)
        self._stopping = False
        self._longest_ms = queue.message_timeout_ms  # That markers are kept long enough for, or it is told.
        self._commit_at_ms = 0
        self._assignment_number = 0

    def stop(self) -> None:
        """Let `run` end soon."""
        self._stopping = True

    async def run(self) -> None:
        """Track until `stop`, then leave the group. Once. Raises: KohortError for what no waiting mends."""
        backoff = Backoff(100, 5_000)
        writing = hasty_producer_options(self._options, self._session_ms // 2)
        async with (
            Producer(**writing) as producer,
            Consumer(**reader_options(self._options)) as reader,
            Admin(**shared_options(self._options)) as self._admin,
            self._consumer,
        ):
            self._redeliverer = Redeliverer(self.queue, reader, producer, writing)
            while not self._stopping:
                try:
                    await self._step()
                    backoff.reset()
                except KohortError as error:
                    if not error.retriable:
                        raise
                    logger.warning("tracking of %s waits: %s", self.queue.topic, str(error))
                    await anyio.sleep(backoff.next_ms() / 1000)
            await self.commit(tuple(self._tracked))

    def metrics(self) -> Mapping[str, float]:
        """Return what is open and overdue now, and what this tracker has done since its start."""
        now_ms = wall_ms()
        states = [each.state for each in self._tracked.values()]
        return {
            "partitions": len(states),
            "open": sum(each.open for each in states),
            "overdue": sum(each.overdue(now_ms) for each in states),
            "oldest_open_ms": max((_age_ms(each, now_ms) or 0 for each in states), default=0),
            **self._told._asdict(),
        }

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the trackers' group, and does not stop."""
        return not self._stopping and has_joined(self._consumer)

    def status(self) -> Mapping[str, object]:
        """Return how the queue's partitions stand that this tracker has; their counts outlive trackers."""
        now_ms = wall_ms()
        return {
            "topic": self.queue.topic,
            "group": self.queue.redelivery_group_id,
            "generation_id": generation_of(self._consumer),
            "dead_letters_topic": self.queue.dead_letters_topic,
            "message_timeout_ms": self.queue.message_timeout_ms,
            **self.metrics(),
            "by_partition": [
                {
                    "partition": each.partition,
                    "open": tracked.state.open,
                    "overdue": tracked.state.overdue(now_ms),
                    "oldest_open_ms": _age_ms(tracked.state, now_ms),
                    "is_caught_up": tracked.state.is_caught_up,
                    **tracked.counters._asdict(),
                }
                for each, tracked in sorted(self._tracked.items())
            ],
        }

    # Inside

    async def _step(self) -> None:
        records = await self._consumer.poll(timeout_ms=POLL_MS)
        now_ms = wall_ms()
        self._notice_new_topic(records.assignments)
        for partition, markers in groupby(records, attrgetter("partition")):
            self._take(partition, list(markers), now_ms)
        for partition, tracked in list(self._tracked.items()):
            state = tracked.state
            if not state.has_begun:
                await self._begin(partition, tracked)
            state.reach(await self._consumer.position(partition))
            await self._see_to(partition, tracked)
        if monotonic_ms() >= self._commit_at_ms:
            await self._check_longest()
            await self.commit(tuple(self._tracked))
            self._commit_at_ms = monotonic_ms() + COMMIT_EVERY_MS

    async def _check_longest(self) -> None:
        """Warn where a record was given more time than markers are kept for."""
        longest_ms = max((each.state.longest_ms for each in self._tracked.values()), default=0)
        if longest_ms > self._longest_ms:
            keeping = await keeping_of(self._admin, self.queue.markers_topic)
            self._longest_ms = longest_ms
            for fault in keeping.faults(self.queue, longest_ms):
                logger.warning("a record was given %s ms: %s", longest_ms, fault)

    def _notice_new_topic(self, assignments: Assignments) -> None:
        """Begin with partitions of markers that were made anew: of the old ones nothing counts any more."""
        number, self._assignment_number = self._assignment_number, assignments.number
        self.take_over(tuple(each for each in self._tracked if assignments.has_come_since(each, number)))

    def _take(self, partition: int, records: Sequence[AnyRecord], now_ms: int) -> None:
        tracked = self._tracked.get(TopicPartition(self.queue.markers_topic, partition))
        if tracked is not None:
            for fault in tracked.state.take(records, now_ms):
                logger.warning("%s-%s %s", self.queue.markers_topic, partition, fault)

    async def _begin(self, partition: TopicPartition, tracked: _Tracked) -> None:
        found = (await self._consumer.committed(partition))[partition]
        taken = await self._committed_by_group(TopicPartition(self.queue.topic, partition.partition))
        ends = await self._consumer.end_offsets(partition)
        if found is not None:
            tracked.counters += decode_counters(found.metadata)
        tracked.state.begin_at(ends[partition], taken)

    async def _see_to(self, partition: TopicPartition, tracked: _Tracked) -> None:
        state = tracked.state
        due = state.take_due(wall_ms(), BATCH_MAX)
        if due and partition in self._consumer.assignment():
            outcome = await self._redeliverer.redeliver(
                state.partition, due, state.suspects(due), partial(self._is_ours, partition, tracked)
            )
            tracked.counters += outcome.counters
            self._told += outcome.counters
            state.give_back(outcome.unknown)
            state.give_back(outcome.refused, not_before_ms=wall_ms() + REFUSED_MS)
        elif due:
            state.give_back(due)
        if state.wants_permission(wall_ms()):
            await self._ask_permission(partition, tracked)

    async def _is_ours(self, partition: TopicPartition, tracked: _Tracked) -> bool:
        """Return whether the partition is ours for as long as a write may take: half of the session.

        The coordinator takes a commit from a member alone, and begins the member's session anew with it.
        """
        began_ms = monotonic_ms()
        value = OffsetAndMetadata(tracked.state.needed_offset, tracked.counters.encode())
        with anyio.move_on_after(self._session_ms / 4 / 1000):
            try:
                await self._consumer.commit(PolledOffsets({partition: value}, self._assignment_number))
            except KohortError as error:
                logger.info("due records of %s wait: %s", partition, str(error))
                return False
            return monotonic_ms() - began_ms <= self._session_ms / 4
        logger.info("due records of %s wait: the group's coordinator does not answer", partition)
        return False

    async def _ask_permission(self, partition: TopicPartition, tracked: _Tracked) -> None:
        """Look up how far the group has come, and then where the markers end: in this order."""
        messages = TopicPartition(self.queue.topic, tracked.state.partition)
        committed = await self._committed_by_group(messages)
        ends = await self._consumer.end_offsets(partition)
        tracked.state.permit(Permission(committed, ends[partition]))
        held_back = tracked.state.held_back(wall_ms(), committed)
        if held_back and monotonic_ms() >= (tracked.warned_at_ms or 0) + WARN_EVERY_MS:
            tracked.warned_at_ms = monotonic_ms()
            logger.info(
                "%s due record(s) of %s wait: group %r has committed up to %s, and will read them itself",
                held_back,
                messages,
                self.queue.group_id,
                committed,
            )

    async def _committed_by_group(self, partition: TopicPartition) -> int:
        found = (await self._admin.list_group_offsets(self.queue.group_id)).get(partition)
        return 0 if found is None else found.offset

    async def commit(self, partitions: Partitions) -> None:
        """Commit the oldest markers that are still needed, and what was done so far."""
        offsets = {}
        for partition in partitions:
            tracked = self._tracked.get(partition)
            if tracked is not None and tracked.state.has_begun:
                value = OffsetAndMetadata(tracked.state.needed_offset, tracked.counters.encode())
                if value != tracked.committed:
                    offsets[partition] = value
        if not offsets:
            return
        try:
            await self._consumer.commit(PolledOffsets(offsets, self._assignment_number))
        except CommitFailedError as error:
            logger.info("the trackers' group has moved on: %s", str(error))
        else:
            for partition, value in offsets.items():
                self._tracked[partition].committed = value

    def take_over(self, partitions: Partitions) -> None:
        """Begin with these partitions, of which nothing is known yet."""
        for each in partitions:
            state = TrackedPartition(each.partition, self.queue.use_now_after_ms)
            self._tracked[each] = _Tracked(state)

    def forget(self, partitions: Partitions) -> None:
        """Let others have these."""
        for each in partitions:
            self._tracked.pop(each, None)


def _age_ms(state: TrackedPartition, now_ms: int) -> int | None:
    """Return for how long the oldest open record has been open; None where none is."""
    marked_ms = state.oldest_marked_ms
    return None if marked_ms is None else max(0, now_ms - marked_ms)


class _Listener(RebalanceListener):
    def __init__(self, tracker: RedeliveryTracker) -> None:
        self._tracker = tracker

    async def on_assigned(self, partitions: Partitions) -> None:
        self._tracker.take_over(partitions)

    async def on_revoked(self, partitions: Partitions) -> None:
        try:
            await self._tracker.commit(partitions)
        except KohortError as error:
            logger.warning("the last commit of a tracker failed: %s", str(error))
        self._tracker.forget(partitions)

    async def on_lost(self, partitions: Partitions) -> None:
        self._tracker.forget(partitions)
