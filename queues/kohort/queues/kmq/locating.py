"""Where a record is now, and what has happened to it so far, as the topics themselves say."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Unpack

from kohort.client.aio import Admin, Consumer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import NoOffsetError
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.queues.clock import wall_ms
from kohort.queues.kmq.copies import DEAD_LETTER_OF, redelivery_count, redelivery_of
from kohort.queues.kmq.markers import MarkerError, Start, decode_key, decode_value
from kohort.queues.kmq.queue import Queue
from kohort.queues.options import reader_options, shared_options
from kohort.queues.scanning import partitions_if_any, scan


class State(Enum):
    """What a record of a queue may be."""

    UNREAD = "unread"
    TAKEN = "taken"
    OVERDUE = "overdue"
    DONE = "done"
    REDELIVERED = "redelivered"
    DEAD = "dead"
    FORGOTTEN = "forgotten"  # It was taken, and its markers are gone by the topic's retention.


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    """A record of the queue's topic, and its state; one that was written again is followed by its copy."""

    partition: int
    offset: int
    state: State
    redeliveries: int
    due_ms: int | None = None
    dead_letter: tuple[int, int] | None = None
    """Partition and offset in the dead letter topic."""


@dataclass(frozen=True, slots=True)
class _Marks:
    """What the markers say of a record last."""

    due_ms: int | None


async def locate(
    queue: Queue, partition: int, offset: int, **options: Unpack[ConsumerOptions]
) -> list[LocatedRecord]:
    """Return the record's way: itself, and each copy of it; the last one is where it is now.

    It reads the partition from that record on, the partition's markers, and the dead letters.
    Raises: NoOffsetError where there is no such record any more, or not yet; KohortError.
    """
    async with Consumer(**reader_options(options)) as reader, Admin(**shared_options(options)) as admin:
        chain = await _copies(reader, queue, partition, offset)
        marks = await _marks(reader, queue, partition)
        dead = await _dead_letters(reader, queue, partition)
        kept = (await admin.list_group_offsets(queue.group_id)).get(TopicPartition(queue.topic, partition))
    committed = 0 if kept is None else kept.offset
    now_ms = wall_ms()
    found = []
    for index, record in enumerate(chain):
        mark = marks.get(record.offset)
        letter = dead.get(record.offset)
        has_copy = index + 1 < len(chain)
        state = _state(record.offset, committed, mark, now_ms, is_dead=letter is not None, has_copy=has_copy)
        due_ms = None if mark is None else mark.due_ms
        found.append(
            LocatedRecord(partition, record.offset, state, redelivery_count(record, queue), due_ms, letter)
        )
    return found


def _state(
    offset: int, committed: int, mark: _Marks | None, now_ms: int, *, is_dead: bool, has_copy: bool
) -> State:
    if is_dead:
        return State.DEAD
    if has_copy:
        return State.REDELIVERED
    if offset >= committed:
        return State.UNREAD
    if mark is None:
        return State.FORGOTTEN
    if mark.due_ms is None:
        return State.DONE
    return State.OVERDUE if mark.due_ms <= now_ms else State.TAKEN


async def _copies(
    reader: Consumer[bytes, bytes], queue: Queue, partition: int, offset: int
) -> list[ConsumerRecord[bytes, bytes]]:
    """Return the record and its copies in their order."""
    where = TopicPartition(queue.topic, partition)
    end = (await reader.end_offsets(where))[where]
    chain: list[ConsumerRecord[bytes, bytes]] = []
    async for record in scan(reader, where, offset, end):
        if not chain:
            if record.offset != offset:
                break
            chain.append(record)
        elif redelivery_of(record) == chain[-1].offset:
            chain.append(record)
    if not chain:
        raise NoOffsetError(f"there is no record of {where} at {offset}; it ends at {end}")
    return chain


async def _marks(reader: Consumer[bytes, bytes], queue: Queue, partition: int) -> Mapping[int, _Marks]:
    where = TopicPartition(queue.markers_topic, partition)
    if where not in await partitions_if_any(reader, queue.markers_topic):
        return {}  # No worker has taken a record of that partition yet.
    begin = (await reader.beginning_offsets(where))[where]
    end = (await reader.end_offsets(where))[where]
    found: dict[int, _Marks] = {}
    async for record in scan(reader, where, begin, end):
        try:
            key, value = decode_key(record.key), decode_value(record.value)
        except MarkerError:
            continue
        due_ms = record.timestamp_ms + value.redeliver_after_ms if isinstance(value, Start) else None
        found[key.offset] = _Marks(due_ms)
    return found


async def _dead_letters(
    reader: Consumer[bytes, bytes], queue: Queue, partition: int
) -> Mapping[int, tuple[int, int]]:
    """Return the dead letters of a partition's records: partition and offset of each in their topic."""
    found: dict[int, tuple[int, int]] = {}
    partitions = await partitions_if_any(reader, queue.dead_letters_topic)
    begins = await reader.beginning_offsets(*partitions)
    for where, end in (await reader.end_offsets(*partitions)).items():
        async for record in scan(reader, where, begins[where], end):
            try:
                of = decode_key(record.header(DEAD_LETTER_OF))
            except MarkerError:
                continue
            if of.partition == partition:
                found[of.offset] = (where.partition, record.offset)
    return found
