"""How a queue stands: what is unread, open and overdue, by partition, from the topics themselves."""

from dataclasses import dataclass
from typing import Unpack

from kohort.client.aio import Admin, Consumer
from kohort.client.config import ConsumerOptions
from kohort.client.values import TopicPartition
from kohort.queues.kmq.counters import TrackerCounters, decode_counters
from kohort.queues.kmq.markers import MarkerError, decode_key, decode_value
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.tracker import wall_ms
from kohort.queues.kmq.tracking import TrackedPartition
from kohort.queues.options import reader_options, shared_options
from kohort.queues.scanning import scan


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
        found = []
        for where in messages:
            markers = TopicPartition(queue.markers_topic, where.partition)
            kept = tracked.get(markers)
            state = await _state(reader, queue, markers, None if kept is None else kept.offset)
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
        letters = await reader.partitions_for(queue.dead_letters_topic)
        first, last = await reader.beginning_offsets(*letters), await reader.end_offsets(*letters)
    return QueueStats(tuple(found), sum(last[each] - first[each] for each in letters))


async def _state(
    reader: Consumer[bytes, bytes], queue: Queue, where: TopicPartition, committed: int | None
) -> TrackedPartition:
    """Return the open markers of one partition; by the wall clock, for all of them were read."""
    state = TrackedPartition(where.partition, queue.use_now_after_ms)
    first, end = await reader.beginning_offsets(where), await reader.end_offsets(where)
    async for record in scan(reader, where, max(first[where], committed or 0), end[where]):
        try:
            key, value = decode_key(record.key), decode_value(record.value)
        except MarkerError:
            continue
        state.take(record.offset, key, value, record.timestamp_ms, now_ms=0)
    return state
