"""The records of one partition as a share group has them: acquired, acknowledged, released, archived.

Acquiring is in memory alone. What a member acknowledges is settled in two steps: `acknowledge` says what has
to be written, `settle` takes it over once it is, or puts it back. Kafka: SharePartition.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from kohort.broker.group.share.happenings import Happenings, Outcome, Reason
from kohort.broker.group.share.record import (
    FINAL,
    Acknowledgement,
    Batch,
    Cause,
    DeadRecords,
    InFlight,
    RecordState,
)
from kohort.protocol.errors import ApiError, ErrorCode

LOCKS_PER_RECORD, LOCKS_KEPT = 4, 64
"""So many locks are kept that were renewed since, or whose record is done with; then all of them go."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group's settings allow."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000
    has_dead_letters: bool = False
    """Whether a record that is given up stays until its dead letter is written."""

    @property
    def often_count(self) -> int:
        """From how many deliveries on a record is handed out with few others, or alone.

        Where only two are allowed that is never the case.
        """
        return max(-(-self.delivery_count_limit // 2), 2)


@dataclass(frozen=True, slots=True)
class Write:
    """States to be made durable, and then settled."""

    batches: tuple[Batch, ...]


class Standing(NamedTuple):
    """What the records in flight come to, and runs of those that members hold: first, last, the first's."""

    held_records: int
    again_records: int
    letter_records: int
    held: list[tuple[int, int, InFlight]]


class SharePartition:
    """One partition in one share group.

    Offsets below `start_offset` are done with, those from `end_offset` on untouched. What is asked again and
    again (where the front is, what is available, whose lock ends first) is kept beside the records, so that
    records acknowledged one by one cost the same however many are in flight. Both heaps may name what has
    changed since: the record says what holds.
    """

    def __init__(
        self,
        start_offset: int,
        limits: Limits,
        batches: Iterable[Batch] = (),
        happenings: Happenings | None = None,
    ) -> None:
        """Begin at an offset, with the states that were written. What none of them names is available.

        `happenings` are those that were noted before, None where there are none.
        """
        self.limits = limits
        self.happenings = Happenings() if happenings is None else happenings
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._records: dict[int, InFlight] = {}
        self._offsets: deque[int] = deque()  # Of the records, in order: they come at the end alone.
        self._available: list[int] = []  # A heap of offsets.
        self._locks: list[tuple[int, int, int]] = []  # A heap of ends of locks, each of offsets from, to.
        self._done = 0  # How many of the records are done with.
        for batch in sorted(batches, key=lambda each: each.first_offset):
            self._restore(batch)
        self._move_start()

    def often_delivered(self, offset: int) -> int | None:
        """Return how many records may be handed out together from this one on, None where that is no matter.

        One of those that come back again and again may be what ends its members. So that it is not given up
        with all that it was delivered with, those that had half of their deliveries go in ever smaller
        parties, and each by itself for the last time. Kafka: SharePartition, from 4.2 on.
        """
        record = self._records.get(offset)
        if record is None or record.delivery_count < self.limits.often_count:
            return None
        if record.delivery_count + 1 >= self.limits.delivery_count_limit:
            return 1
        end = offset
        while self._is_like(record, end):
            end += 1
        return max((end - offset) >> (record.delivery_count - self.limits.often_count + 1), 1)

    def _is_like(self, record: InFlight, offset: int) -> bool:
        """Return whether what is there is available, and was delivered as often."""
        other = self._records.get(offset)
        return (
            other is not None
            and other.state is RecordState.AVAILABLE
            and other.delivery_count == record.delivery_count
        )

    def acquire(
        self,
        member_id: str,
        first_offset: int,
        last_offset: int,
        max_records: int,
        now_ms: int,
        *,
        often: bool = False,
    ) -> tuple[Batch, ...]:
        """Lock for a member what is available of the offsets read, and return it; both ends are included.

        Records that are `often_delivered` go by themselves: they are taken, or left, as `often` says.
        """
        acquired: list[int] = []
        until_ms, often_count = now_ms + self.limits.record_lock_duration_ms, self.limits.often_count
        if not self._records and first_offset > self.end_offset:
            self.start_offset = self.end_offset = first_offset
        for offset in range(max(first_offset, self.start_offset), last_offset + 1):
            if len(acquired) >= max_records:
                break
            record = self._records.get(offset)
            if record is None:
                if offset < self.end_offset:
                    continue
                if len(self._records) >= self.limits.max_record_locks:
                    break
                record = self._add(offset, InFlight())
            if record.state is RecordState.AVAILABLE and (record.delivery_count >= often_count) is often:
                record.state = RecordState.ACQUIRED
                record.delivery_count += 1
                record.member_id = member_id
                record.since_ms = now_ms
                record.lock_until_ms = until_ms
                acquired.append(offset)
        batches = self._batches(acquired)
        for batch in batches:
            self._add_lock(until_ms, batch.first_offset, batch.last_offset)
        return batches

    def acknowledge(
        self, member_id: str, first_offset: int, kinds: Sequence[Acknowledgement], now_ms: int
    ) -> Write:
        """Take a member's word for offsets from the first on, and return what has to be written.

        Raises:
            ApiError: INVALID_RECORD_STATE if this member does not hold one of them, INVALID_REQUEST if they
                end where nobody has read yet; nothing has changed then.
        """
        return self.acknowledge_all(member_id, ((first_offset, kinds),), now_ms)

    def acknowledge_all(
        self, member_id: str, words: Iterable[tuple[int, Sequence[Acknowledgement]]], now_ms: int
    ) -> Write:
        """Take a member's word for several runs of offsets, which do not overlap, or for none of them.

        Of a run in which the start lies, what it has passed needs no word any more. Raises: ApiError, as
        `acknowledge`.
        """
        held: list[tuple[int, InFlight, Acknowledgement]] = []
        for first_offset, kinds in words:
            end_offset = first_offset + len(kinds)
            self._check_end(first_offset, end_offset)
            held += [
                (offset, self._held(offset, member_id, now_ms), kind)
                for offset, kind in enumerate(kinds, first_offset)
                if offset >= self.start_offset or end_offset <= self.start_offset
            ]
        settled: list[tuple[int, RecordState, int]] = []
        until_ms = now_ms + self.limits.record_lock_duration_ms
        for offset, record, kind in held:
            if kind is Acknowledgement.RENEW:
                record.lock_until_ms = until_ms
                self._add_lock(until_ms, offset, offset)
            else:
                record.is_settling = True
                after, record.cause = self._after(record, kind)
                if kind is not Acknowledgement.ACCEPT:
                    record.reason = _REASONS.get(kind)
                settled.append((offset, after, record.delivery_count))
        return Write(_merged(settled))

    def archive(self, first_offset: int, last_offset: int) -> Write:
        """Give up what is acquired of these offsets: nobody is to see it, such as what was aborted."""
        taken = [
            offset
            for offset in range(max(first_offset, self.start_offset), min(last_offset + 1, self.end_offset))
            if (record := self._records.get(offset)) is not None and _is_held(record)
        ]
        for offset in taken:
            self._let_go(offset, self._records[offset], RecordState.ARCHIVED)
        write = Write(self._batches(taken))
        self._move_start()
        return write

    def dead(self, first_offset: int, last_offset: int) -> tuple[DeadRecords, ...]:
        """Return which of these offsets are to have dead letters, now that they are written as given up."""
        found: list[DeadRecords] = []
        for offset in range(max(first_offset, self.start_offset), min(last_offset + 1, self.end_offset)):
            record = self._records.get(offset)
            if record is None or record.state is not RecordState.ARCHIVING:
                continue
            first = offset
            if found and found[-1] == DeadRecords(
                found[-1].first_offset, offset - 1, record.delivery_count, record.cause
            ):
                first = found.pop().first_offset
            found.append(DeadRecords(first, offset, record.delivery_count, record.cause))
        return tuple(found)

    def buried(self, first_offset: int, last_offset: int, now_ms: int, *, is_written: bool) -> Write:
        """Give these up, which have their dead letters now, and return what is to be written of it.

        `is_written` says whether there are any: where the settings are wrong nobody ever writes them.
        """
        taken = [
            offset
            for offset in range(max(first_offset, self.start_offset), last_offset + 1)
            if (record := self._records.get(offset)) is not None and record.state is RecordState.ARCHIVING
        ]
        outcome = Outcome.DEAD_LETTER if is_written else Outcome.NO_DEAD_LETTER
        for offset in taken:
            record = self._records[offset]
            self.happenings.add(
                now_ms, outcome, None, offset, member_id="", delivery_count=record.delivery_count
            )
            self._let_go(offset, record, RecordState.ARCHIVED)
        write = Write(self._batches(taken))
        self._move_start()
        return write

    def settle(self, write: Write, now_ms: int, *, is_durable: bool) -> None:
        """Take over what was written, or leave it with its member if it could not be."""
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                record = self._records.get(offset)
                if record is None:
                    continue  # The log's start has passed it meanwhile.
                record.is_settling = False
                if is_durable:
                    if batch.state is not RecordState.ACKNOWLEDGED and record.reason is not None:
                        self._note(now_ms, offset, record, batch.state, record.reason)
                    self._let_go(offset, record, batch.state)
                else:  # Its lock may have ended meanwhile, unheeded.
                    self._add_lock(record.lock_until_ms, offset, offset)
        self._move_start()

    def expire_locks(self, now_ms: int) -> Write:
        """Take back what members have held for too long, and return what is to be written of it."""
        ended: list[int] = []
        while self._locks and self._locks[0][0] <= now_ms:
            until_ms, first, last = heappop(self._locks)
            ended += [offset for offset in range(first, last + 1) if self._is_lock(until_ms, offset)]
        return self._take_back(dict.fromkeys(ended), now_ms, Reason.LOCK_ENDED)

    def release_member(self, member_id: str, now_ms: int, reason: Reason = Reason.SESSION_CLOSED) -> Write:
        """Take back what a member holds whose session has ended.

        It was delivered, as in Kafka: a record that ends each process that gets it is given up in the end.
        """
        held = [
            offset
            for offset in self._offsets
            if (record := self._records[offset]).member_id == member_id and _is_held(record)
        ]
        return self._take_back(held, now_ms, reason)

    def holds(self, member_id: str) -> bool:
        """Return whether a member has records that it has yet to say something of."""
        return any(each.member_id == member_id and _is_held(each) for each in self._records.values())

    def standing(self, runs_max: int) -> Standing:
        """Return how many records are where, and the first runs of those that members hold."""
        held_records = again_records = letter_records = 0
        held: list[tuple[int, int, InFlight]] = []
        for offset in self._offsets:
            record = self._records[offset]
            if record.state is RecordState.AVAILABLE:
                again_records += record.delivery_count > 0
            elif record.state is RecordState.ARCHIVING:
                letter_records += 1
            elif record.state is RecordState.ACQUIRED:
                held_records += 1
                if held and held[-1][1] + 1 == offset and _is_held_like(held[-1][2], record):
                    held[-1] = held[-1][0], offset, held[-1][2]
                elif len(held) < runs_max:
                    held.append((offset, offset, record))
        return Standing(held_records, again_records, letter_records, held)

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds anything, no write is under way, and no dead letter is missing."""
        return not any(
            each.state in (RecordState.ACQUIRED, RecordState.ARCHIVING) for each in self._records.values()
        )

    @property
    def has_room(self) -> bool:
        """Whether records that nobody has had may be handed out."""
        return len(self._records) < self.limits.max_record_locks

    @property
    def done_count(self) -> int:
        """How many records behind the start are done with."""
        return self._done

    def next_lock_timeout_ms(self) -> int | None:
        """When the first lock ends, or None if nothing is held that could come back."""
        while self._locks:
            until_ms, first, last = self._locks[0]
            offset = first
            while offset <= last and not self._is_lock(until_ms, offset):
                offset += 1
            if offset > last:
                heappop(self._locks)
                continue
            if offset > first:  # So that nobody looks at those before it again.
                heapreplace(self._locks, (until_ms, offset, last))
            return until_ms
        return None

    def log_starts_at(self, offset: int) -> None:
        """Forget what the log has deleted: it is archived, in whosever hands it is."""
        while self._offsets and self._offsets[0] < offset:
            self._forget_first()
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, offset)
        self._move_start()

    def next_fetch_offset(self) -> int:
        """From where to read for the next member: the first available record, or the end."""
        while self._available:
            record = self._records.get(self._available[0])
            if record is not None and record.state is RecordState.AVAILABLE:
                return self._available[0]
            heappop(self._available)
        return self.end_offset

    def batches(self) -> tuple[Batch, ...]:
        """All that is in flight, in the order of offsets."""
        return self._batches(self._offsets)

    def _add(self, offset: int, record: InFlight) -> InFlight:
        """Return the record, which is the last one from now on."""
        self._records[offset] = record
        self._offsets.append(offset)
        self._done += record.state in FINAL
        if record.state is RecordState.AVAILABLE:
            heappush(self._available, offset)
        self.end_offset = offset + 1
        return record

    def _add_lock(self, until_ms: int, first_offset: int, last_offset: int) -> None:
        heappush(self._locks, (until_ms, first_offset, last_offset))
        if len(self._locks) > LOCKS_PER_RECORD * (len(self._records) + LOCKS_KEPT):
            self._locks = [
                (until_ms, offset, offset)
                for until_ms, first, last in self._locks
                for offset in range(first, last + 1)
                if self._is_lock(until_ms, offset)
            ]
            heapify(self._locks)

    def _is_lock(self, until_ms: int, offset: int) -> bool:
        """Return whether a lock ends then: no older one of its record, and none that is being written."""
        record = self._records.get(offset)
        return record is not None and record.lock_until_ms == until_ms and _is_held(record)

    def _let_go(self, offset: int, record: InFlight, state: RecordState) -> None:
        record.state = state
        record.member_id = ""
        self._done += state in FINAL
        if state is RecordState.AVAILABLE:
            heappush(self._available, offset)

    def _restore(self, batch: Batch) -> None:
        """Put a written batch in place. Nobody holds anything after a restart."""
        for offset in range(self.end_offset, batch.first_offset):
            self._add(offset, InFlight())
        state = RecordState.AVAILABLE if batch.state is RecordState.ACQUIRED else batch.state
        for offset in range(max(batch.first_offset, self.start_offset), batch.last_offset + 1):
            self._add(offset, InFlight(state, batch.delivery_count))

    def _check_end(self, first_offset: int, end_offset: int) -> None:
        """Pass a run that begins in front of what is in flight, or ends in it. Raises: ApiError, as Kafka."""
        if end_offset > self.end_offset and self._offsets and self._offsets[0] <= first_offset:
            raise ApiError(ErrorCode.INVALID_REQUEST)

    def _held(self, offset: int, member_id: str, now_ms: int) -> InFlight:
        record = self._records.get(offset)
        if (
            record is None
            or not _is_held(record)
            or record.member_id != member_id
            or record.lock_until_ms <= now_ms
        ):
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)
        return record

    def _after(self, record: InFlight, kind: Acknowledgement) -> tuple[RecordState, Cause | None]:
        """In which state an acknowledgement leaves a record, and why where it gives it up."""
        if kind is Acknowledgement.ACCEPT:
            return RecordState.ACKNOWLEDGED, None
        if kind is Acknowledgement.RELEASE and record.delivery_count < self.limits.delivery_count_limit:
            return RecordState.AVAILABLE, None
        if kind is Acknowledgement.GAP or not self.limits.has_dead_letters:
            return RecordState.ARCHIVED, None
        is_rejected = kind is Acknowledgement.REJECT
        return RecordState.ARCHIVING, Cause.REJECTED if is_rejected else Cause.DELIVERED_TOO_OFTEN

    def _note(self, now_ms: int, offset: int, record: InFlight, state: RecordState, reason: Reason) -> None:
        """Note what makes a record leave its member's hands, before it does."""
        self.happenings.add(
            now_ms,
            _OUTCOMES[state],
            reason,
            offset,
            member_id=record.member_id,
            delivery_count=record.delivery_count,
        )

    def _take_back(self, offsets: Iterable[int], now_ms: int, reason: Reason) -> Write:
        taken = sorted(offsets)
        for offset in taken:
            record = self._records[offset]
            after, record.cause = self._after(record, Acknowledgement.RELEASE)
            self._note(now_ms, offset, record, after, reason)
            self._let_go(offset, record, after)
        write = Write(self._batches(taken))
        self._move_start()
        return write

    def _move_start(self) -> None:
        """Let go of what is done with at the front."""
        while self._offsets and self._records[self._offsets[0]].state in FINAL:
            self._forget_first()
        self.start_offset = self._offsets[0] if self._offsets else self.end_offset

    def _forget_first(self) -> None:
        self._done -= self._records.pop(self._offsets.popleft()).state in FINAL

    def _batches(self, offsets: Iterable[int]) -> tuple[Batch, ...]:
        records = self._records
        return _merged(
            [(offset, (record := records[offset]).state, record.delivery_count) for offset in offsets]
        )


_REASONS = {Acknowledgement.RELEASE: Reason.RELEASED, Acknowledgement.REJECT: Reason.REJECTED}
_OUTCOMES = {
    RecordState.AVAILABLE: Outcome.COMES_AGAIN,
    RecordState.ARCHIVING: Outcome.WAITS_FOR_DEAD_LETTER,
    RecordState.ARCHIVED: Outcome.GIVEN_UP,
}


def _is_held_like(one: InFlight, other: InFlight) -> bool:
    """Return whether the same member has both for as long, and until the same time."""
    return (one.member_id, one.since_ms, one.lock_until_ms, one.delivery_count) == (
        other.member_id,
        other.since_ms,
        other.lock_until_ms,
        other.delivery_count,
    )


def _is_held(record: InFlight) -> bool:
    """Return whether the record could come back from its member: not while its next state is written."""
    return record.state is RecordState.ACQUIRED and not record.is_settling


def _merged(singles: Sequence[tuple[int, RecordState, int]]) -> tuple[Batch, ...]:
    """Offsets in order, each with its state and delivery count; those that touch and are alike as one."""
    merged: list[Batch] = []
    first = last = -2
    state, count = RecordState.AVAILABLE, 0
    for offset, own_state, own_count in singles:
        if offset == last + 1 and own_state is state and own_count == count:
            last = offset
            continue
        if first >= 0:
            merged.append(Batch(first, last, state, count))
        first = last = offset
        state, count = own_state, own_count
    if first >= 0:
        merged.append(Batch(first, last, state, count))
    return tuple(merged)
