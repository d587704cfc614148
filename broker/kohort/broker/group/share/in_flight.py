"""Records in flight, kept as batches whose records share a fate: as many as there are different fates.

A batch is split where a part of it goes another way, and joined with its neighbours where they are alike
again. Kafka: SharePartition's cached state, of InFlightBatch and InFlightState.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kohort.broker.group.share.delivery_events import Reason
from kohort.broker.group.share.record import FINAL, Batch, Cause, RecordState
from kohort.protocol.errors import ApiError, ErrorCode


@dataclass(slots=True)
class InFlightBatch:
    """The state of consecutive offsets, first and last included."""

    first_offset: int
    last_offset: int
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member_id: str = ""
    lock_until_ms: int = 0
    since_ms: int = 0
    """Since when its member has it."""
    is_settling: bool = False
    """Whether a write of its next state is running."""
    cause: Cause | None = None
    """Why it is archived; unknown if another leader has started it."""
    reason: Reason | None = None
    """What its member says of it, while that is being written."""

    @property
    def record_count(self) -> int:
        """How many offsets there are."""
        return self.last_offset + 1 - self.first_offset

    @property
    def is_held(self) -> bool:
        """Whether it could come back from its member: not while its next state is written."""
        return self.state is RecordState.ACQUIRED and not self.is_settling

    def is_held_like(self, other: "InFlightBatch") -> bool:
        """Return whether the same member has both for as long, and until the same time."""
        return (
            self.delivery_count == other.delivery_count
            and self.lock_until_ms == other.lock_until_ms
            and self.since_ms == other.since_ms
            and self.member_id == other.member_id
        )

    def is_like(self, other: "InFlightBatch") -> bool:
        """Return whether they differ only in their offsets."""
        return (
            self.state is other.state
            and self.is_held_like(other)
            and self.is_settling is other.is_settling
            and self.cause is other.cause
            and self.reason is other.reason
        )

    def from_offset(self, offset: int) -> "InFlightBatch":
        """Return the part of it that begins at an offset in it."""
        return InFlightBatch(
            offset,
            self.last_offset,
            self.state,
            self.delivery_count,
            self.member_id,
            self.lock_until_ms,
            self.since_ms,
            self.is_settling,
            self.cause,
            self.reason,
        )


class Standing(NamedTuple):
    """The totals of the records in flight, and the acquired ones, merged if they are equal."""

    held_records: int
    again_records: int
    letter_records: int
    held: list[InFlightBatch]


class InFlightBatches:
    """Batches in the order of their offsets. Offsets between them may be missing: nothing was read there."""

    __slots__ = ("_batches", "_firsts", "record_count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []
        self.record_count = 0
        """How many records there are in all batches."""

    def __iter__(self) -> Iterator[InFlightBatch]:
        """Go through them in their order; they may change meanwhile, but not come or go."""
        return iter(self._batches)

    def __len__(self) -> int:
        """Return how many batches there are."""
        return len(self._batches)

    @property
    def first(self) -> InFlightBatch | None:
        """The first batch, None without one."""
        return self._batches[0] if self._batches else None

    def at(self, offset: int) -> InFlightBatch | None:
        """Return the batch that has the offset."""
        index = bisect_right(self._firsts, offset) - 1
        if index < 0:
            return None
        batch = self._batches[index]
        return batch if offset <= batch.last_offset else None

    def from_batch_at(self, offset: int) -> Iterator[InFlightBatch]:
        """Go through the batches from the one on that has the offset."""
        for index in range(self._first_index(offset), len(self._batches)):
            yield self._batches[index]

    def between(self, first_offset: int, last_offset: int) -> Sequence[InFlightBatch]:
        """Return the batches that have some of these offsets, and maybe others as well."""
        return self._batches[self._first_index(first_offset) : bisect_right(self._firsts, last_offset)]

    def cut(self, first_offset: int, last_offset: int) -> Sequence[InFlightBatch]:
        """Return batches with only these offsets: those with others as well are split."""
        if first_offset > last_offset:
            return ()
        begin = self._first_index(first_offset)
        batches = self._batches
        if begin < len(batches) and batches[begin].first_offset < first_offset:
            self._split(begin, first_offset)
            begin += 1
        end = bisect_right(self._firsts, last_offset)
        if end > begin and batches[end - 1].last_offset > last_offset:
            self._split(end - 1, last_offset + 1)
        return batches[begin:end]

    def append(self, batch: InFlightBatch) -> None:
        """Put a batch behind all others."""
        self.record_count += batch.record_count
        if self._batches:
            last = self._batches[-1]
            if last.last_offset + 1 == batch.first_offset and last.is_like(batch):
                last.last_offset = batch.last_offset
                return
        self._firsts.append(batch.first_offset)
        self._batches.append(batch)

    def join(self, first_offset: int, last_offset: int) -> None:
        """Make one of batches that are alike and touch, of those with these offsets and those beside them."""
        batches = self._batches
        index = max(self._first_index(first_offset) - 1, 0)
        end = min(bisect_right(self._firsts, last_offset) + 1, len(batches))
        while index + 1 < end:
            batch, following = batches[index], batches[index + 1]
            if batch.last_offset + 1 == following.first_offset and batch.is_like(following):
                batch.last_offset = following.last_offset
                del batches[index + 1], self._firsts[index + 1]
                end -= 1
            else:
                index += 1

    def drop_final(self) -> int:
        """Remove completed batches at the front; return how many records they had."""
        end = count = 0
        for batch in self._batches:
            if batch.state not in FINAL:
                break
            count += batch.record_count
            end += 1
        if end:
            del self._batches[:end], self._firsts[:end]
            self.record_count -= count
        return count

    def standing(self, runs_max: int) -> Standing:
        """Return the number of records in each state, and the first runs of records that members hold."""
        held_records = again_records = letter_records = 0
        held: list[InFlightBatch] = []
        for batch in self:
            count = batch.record_count
            if batch.state is RecordState.AVAILABLE:
                again_records += count if batch.delivery_count > 0 else 0
            elif batch.state is RecordState.ARCHIVING:
                letter_records += count
            elif batch.state is RecordState.ACQUIRED:
                held_records += count
                if held and held[-1].last_offset + 1 == batch.first_offset and held[-1].is_held_like(batch):
                    held[-1].last_offset = batch.last_offset
                elif len(held) < runs_max:
                    held.append(batch.from_offset(batch.first_offset))
        return Standing(held_records, again_records, letter_records, held)

    def check_held(self, first_offset: int, last_offset: int, member_id: str, now_ms: int) -> None:
        """Pass offsets that the member holds. Raises: ApiError INVALID_RECORD_STATE."""
        missing = first_offset
        for batch in self.between(first_offset, last_offset):
            if (
                batch.first_offset > missing
                or not batch.is_held
                or batch.member_id != member_id
                or batch.lock_until_ms <= now_ms
            ):
                raise ApiError(ErrorCode.INVALID_RECORD_STATE)
            missing = batch.last_offset + 1
        if missing <= last_offset:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)

    def drop_until(self, offset: int) -> Sequence[InFlightBatch]:
        """Remove everything before the offset, and return it."""
        dropped = self.cut(self._firsts[0], offset - 1) if self._firsts else ()
        if dropped:
            del self._batches[: len(dropped)], self._firsts[: len(dropped)]
            self.record_count -= sum(each.record_count for each in dropped)
        return dropped

    def _first_index(self, offset: int) -> int:
        """Return the index of the first batch that ends at or after the offset."""
        index = bisect_left(self._firsts, offset)
        if index and self._batches[index - 1].last_offset >= offset:
            return index - 1
        return index

    def _split(self, index: int, offset: int) -> None:
        """Split the batch at the offset."""
        batch = self._batches[index]
        self._firsts.insert(index + 1, offset)
        self._batches.insert(index + 1, batch.from_offset(offset))
        batch.last_offset = offset - 1


def merged(batches: Sequence[InFlightBatch]) -> tuple[Batch, ...]:
    """Return the stored form of batches in order: adjacent ones with one state are merged."""
    found: list[Batch] = []
    last = -2
    for each in batches:
        state, count = each.state, each.delivery_count
        if each.first_offset == last + 1 and found[-1].state is state and found[-1].delivery_count == count:
            found[-1] = Batch(found[-1].first_offset, each.last_offset, state, count)
        else:
            found.append(Batch(each.first_offset, each.last_offset, state, count))
        last = each.last_offset
    return tuple(found)
