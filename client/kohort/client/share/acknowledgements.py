"""The records that the user has, and how they were acknowledged: pure.

The user's thread acknowledges records while none of its calls is running; the loop takes the
acknowledgements within calls, while that thread waits. So neither needs a lock.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from kohort.client.errors import NotAcquiredError
from kohort.client.share.values import AcknowledgeType, AnyShareRecord
from kohort.client.values import TopicPartition

GAP = 0
"""Says of an offset that there is no record there: the log was compacted, or it was a marker."""
TYPES_MAX = 1_000
"""The maximum number of consecutive offsets in one batch of differing types, which a broker has to read at
once."""

LOOK_MS = 1_000


class Held(NamedTuple):
    """The partition of an acquired record, and the end of its lock."""

    node_id: int
    topic_id: UUID
    until_ms: int


class Acknowledgement(NamedTuple):
    """How one record is acknowledged."""

    partition: TopicPartition
    offset: int
    held: Held
    type: int


class Batch(NamedTuple):
    """Consecutive offsets, with one type for all or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


class Acknowledgements:
    """The records that one consumer has in hand, and their acknowledgements."""

    def __init__(self) -> None:
        self._in_hand: dict[tuple[str, int], dict[int, Held]] = {}
        self._pending: list[Acknowledgement] = []
        self._look_ms = 0

    def __len__(self) -> int:
        """How many records the user has and has not acknowledged."""
        return sum(map(len, self._in_hand.values()))

    def hand_out(self, records: Iterable[tuple[AnyShareRecord, Held]], now_ms: int) -> None:
        """Return these to the user; now and then, forget those whose lock has expired."""
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + LOOK_MS
            self._forget_late(now_ms)
        for record, held in records:
            self._in_hand.setdefault((record.topic, record.partition), {})[record.offset] = held

    def _forget_late(self, now_ms: int) -> None:
        for where, holding in list(self._in_hand.items()):
            late = [offset for offset, held in holding.items() if held.until_ms <= now_ms]
            for offset in late:
                del holding[offset]
            if not holding:
                del self._in_hand[where]

    def acknowledge(self, record: AnyShareRecord, type_: AcknowledgeType) -> None:
        """Acknowledge a record; a renewed one stays. Raises: NotAcquiredError."""
        holding = self._in_hand.get((record.topic, record.partition), {})
        held = holding.get(record.offset)
        if held is None:
            raise NotAcquiredError(
                f"the record at offset {record.offset} of {record.topic}-{record.partition} is not this"
                " consumer's: it was acknowledged before, or its lock ran out"
            )
        if type_ is not AcknowledgeType.RENEW:
            del holding[record.offset]
        partition = TopicPartition(record.topic, record.partition)
        self._pending.append(Acknowledgement(partition, record.offset, held, type_))

    def acknowledge_all(self, type_: AcknowledgeType) -> None:
        """Say the same of all that the user has."""
        for (topic, index), holding in self._in_hand.items():
            where = TopicPartition(topic, index)
            self._pending += [Acknowledgement(where, offset, held, type_) for offset, held in holding.items()]
        self._in_hand.clear()

    def take_pending(self) -> list[Acknowledgement]:
        """Return the acknowledgements since the last call."""
        pending, self._pending = self._pending, []
        return pending

    def renewed(self, acknowledgements: Iterable[Acknowledgement], until_ms: int) -> None:
        """Note that the locks of these were renewed."""
        for each in acknowledgements:
            holding = self._in_hand.get(each.partition, {})
            held = holding.get(each.offset)
            if held is not None:
                holding[each.offset] = held._replace(until_ms=until_ms)


def batches(acknowledgements: Iterable[Acknowledgement]) -> tuple[Batch, ...]:
    """Return one partition's acknowledgements as a request has them; the last one of each record counts."""
    types = {each.offset: each.type for each in acknowledgements}
    found: list[Batch] = []
    run: list[int] = []
    for offset in sorted(types):
        if run and (offset != run[-1] + 1 or len(run) >= TYPES_MAX):
            found.append(_batch(run, types))
            run = []
        run.append(offset)
    if run:
        found.append(_batch(run, types))
    return tuple(found)


def _batch(run: Sequence[int], types: dict[int, int]) -> Batch:
    each = tuple(types[offset] for offset in run)
    return Batch(run[0], run[-1], each[:1] if len(set(each)) == 1 else each)
