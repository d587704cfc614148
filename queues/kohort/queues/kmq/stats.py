"""How a queue stands: what is unread, open and overdue, by partition, from the topics themselves."""

from dataclasses import dataclass, field
from typing import Unpack

from kohort.client.aio import Admin, Consumer
from kohort.client.config import ConsumerOptions
from kohort.client.values import TopicPartition
from kohort.queues.clock import wall_ms
from kohort.queues.kmq.counters import TrackerCounters, decode_counters
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.topics import Keeping, keeping_of
from kohort.queues.kmq.tracking import TrackedPartition
from kohort.queues.options import reader_options, shared_options
from kohort.queues.scanning import partitions_if_any, scan


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """One partition: records that nobody has taken, open ones, and what trackers have done."""

    partition: int
    unread: int
    open: int
    overdue: int
    counters: TrackerCounters


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue's partitions, and how many dead letters there are."""

    partitions: tuple[PartitionStats, ...]
    dead_letters: int
    missing_topics: tuple[str, ...] = ()
    """Those of the markers and of the dead letters that nobody has made yet; they count as empty."""
    keeping: Keeping = field(default_factory=Keeping)
    """How markers are kept."""
    longest_ms: int = 0
    """The longest time that the markers after the trackers' offset give a record."""

    @property
    def total(self) -> PartitionStats:
        """All partitions together, under the number -1."""
        return PartitionStats(
            -1,
            sum(each.unread for each in self.partitions),
            sum(each.open for each in self.partitions),
            sum(each.overdue for each in self.partitions),
            sum((each.counters for each in self.partitions), TrackerCounters()),
        )


async def queue_stats(queue: Queue, **options: Unpack[ConsumerOptions]) -> QueueStats:
    """Return how the queue stands, read from where its trackers have committed. Raises: KohortError."""
    async with Consumer(**reader_options(options)) as reader, Admin(**shared_options(options)) as admin:
        taken = await admin.list_group_offsets(queue.group_id)
        tracked = await admin.list_group_offsets(queue.redelivery_group_id)
        messages = await reader.partitions_for(queue.topic)
        begins, ends = await reader.beginning_offsets(*messages), await reader.end_offsets(*messages)
        markers = await partitions_if_any(reader, queue.markers_topic)
        letters = await partitions_if_any(reader, queue.dead_letters_topic)
        found, longest_ms = [], 0
        for where in messages:
            where_marked = TopicPartition(queue.markers_topic, where.partition)
            kept = tracked.get(where_marked)
            state = TrackedPartition(where.partition, queue.use_now_after_ms)
            if where_marked in markers:
                await _read_markers(reader, where_marked, 0 if kept is None else kept.offset, state)
            longest_ms = max(longest_ms, state.longest_ms)
            read = taken.get(where)
            found.append(
                PartitionStats(
                    where.partition,
                    ends[where] - max(begins[where], 0 if read is None else read.offset),
                    state.open,
                    state.overdue(wall_ms()),
                    decode_counters("" if kept is None else kept.metadata),
                )
            )
        first, last = await reader.beginning_offsets(*letters), await reader.end_offsets(*letters)
        keeping = await keeping_of(admin, queue.markers_topic) if markers else Keeping()
    topics = ((queue.markers_topic, markers), (queue.dead_letters_topic, letters))
    missing = tuple(name for name, partitions in topics if not partitions)
    dead_letters = sum(last[each] - first[each] for each in letters)
    return QueueStats(tuple(found), dead_letters, missing, keeping, longest_ms)


async def _read_markers(
    reader: Consumer[bytes, bytes], where: TopicPartition, committed: int, state: TrackedPartition
) -> None:
    """Take the markers of one partition into its state; by the wall clock, for all of them are read."""
    first, end = await reader.beginning_offsets(where), await reader.end_offsets(where)
    async for record in scan(reader, where, max(first[where], committed), end[where]):
        state.take((record,), now_ms=0)
