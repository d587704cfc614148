"""The records of one partition as a share group has them: acquired, acknowledged, released, archived.

Acquiring only changes memory. An acknowledgement is settled in two steps: `acknowledge` returns the state
to write, `settle` applies it when it is written, or reverts it. Kafka: SharePartition.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby

from kohort.broker.group.share.delivery_events import DeliveryEvents, Outcome, Reason
from kohort.broker.group.share.in_flight import InFlightBatch, InFlightBatches, merged
from kohort.broker.group.share.locks import Locks
from kohort.broker.group.share.record import (
    FINAL,
    Acknowledgement,
    Batch,
    Cause,
    DeadRecords,
    RecordState,
)
from kohort.protocol.errors import ApiError, ErrorCode

Words = Iterable[tuple[int, int, Sequence[Acknowledgement]]]
"""First and last offset of runs that do not overlap, with one word for all records of it or one for each."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in a group's settings."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000
    has_dead_letters: bool = False
    """Whether an archived record waits until its dead letter is written."""

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


class SharePartition:
    """One partition in one share group.

    Offsets below `start_offset` are completed, those from `end_offset` unread. Those between are kept
    in batches of one state, so that the cost depends on the number of batches, not of records. Values that
    are needed often are in two heaps, which may have outdated entries: the batch
    decides. Each available batch has its first offset in the one; the other are the `locks`.
    """

    def __init__(
        self,
        start_offset: int,
        limits: Limits,
        batches: Iterable[Batch] = (),
        delivery_events: DeliveryEvents | None = None,
    ) -> None:
        """Begin at an offset, with the states that were written. What none of them names is available.

        `delivery_events` are those that were noted before, None where there are none.
        """
        self.limits = limits
        self.delivery_events = DeliveryEvents() if delivery_events is None else delivery_events
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._in_flight = InFlightBatches()
        self._available: list[int] = []  # A heap of offsets.
        self.locks = Locks(self._in_flight)
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
        batch = self._in_flight.at(offset)
        if batch is None or batch.delivery_count < self.limits.often_count:
            return None
        count = batch.delivery_count
        if count + 1 >= self.limits.delivery_count_limit:
            return 1
        end = offset
        for each in self._in_flight.from_batch_at(offset):
            if (
                each.first_offset > end
                or each.state is not RecordState.AVAILABLE
                or each.delivery_count != count
            ):
                break
            end = each.last_offset + 1
        return max((end - offset) >> (count - self.limits.often_count + 1), 1)

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
        """Acquire for a member the available ones of the offsets read, and return them.

        Both ends are included.
        Records that are `often_delivered` go by themselves: they are taken, or left, as `often` says.
        """
        in_flight = self._in_flight
        if not in_flight and first_offset > self.end_offset:
            self.start_offset = self.end_offset = first_offset
        first = max(first_offset, self.start_offset)
        until_ms = now_ms + self.limits.record_lock_duration_ms
        acquired: list[InFlightBatch] = []
        if first < self.end_offset:
            for batch in self._cut_available(first, last_offset, max_records, often=often):
                batch.state = RecordState.ACQUIRED
                batch.delivery_count += 1
                batch.member_id = member_id
                batch.since_ms = now_ms
                batch.lock_until_ms = until_ms
                acquired.append(batch)
                max_records -= batch.record_count
        first = max(first, self.end_offset)
        room = min(max_records, self.limits.max_record_locks - in_flight.record_count)
        last = min(last_offset, first + room - 1)
        new = None
        if first <= last and not often:
            new = InFlightBatch(first, last, RecordState.ACQUIRED, 1, member_id, until_ms, now_ms)
            acquired.append(new)
        batches = merged(acquired)
        if new is not None:
            in_flight.append(new)
            self.end_offset = last + 1
        for each in batches:
            self.locks.add(until_ms, each.first_offset, each.last_offset)
        return batches

    def _cut_available(
        self, first_offset: int, last_offset: int, max_records: int, *, often: bool
    ) -> Iterator[InFlightBatch]:
        """Yield the available ones of these offsets, as separate batches."""
        often_count = self.limits.often_count
        for batch in self._in_flight.between(first_offset, last_offset):
            if max_records <= 0:
                break
            if batch.state is RecordState.AVAILABLE and (batch.delivery_count >= often_count) is often:
                first = max(batch.first_offset, first_offset)
                last = min(batch.last_offset, last_offset, first + max_records - 1)
                if last < batch.last_offset:
                    heappush(self._available, last + 1)
                yield from self._in_flight.cut(first, last)
                max_records -= last + 1 - first

    def acknowledge(
        self, member_id: str, first_offset: int, kinds: Sequence[Acknowledgement], now_ms: int
    ) -> Write:
        """Apply a member's acknowledgement of consecutive offsets, and return the state to write.

        Raises:
            ApiError: INVALID_RECORD_STATE if this member has not acquired one of them, INVALID_REQUEST if
                they end at an unread offset; nothing has changed then.
        """
        return self.acknowledge_all(
            member_id, ((first_offset, first_offset + len(kinds) - 1, kinds),), now_ms
        )

    def acknowledge_all(self, member_id: str, words: Words, now_ms: int) -> Write:
        """Take a member's word for several runs of offsets, or for none of them.

        Of a run that contains the start, offsets before it need no acknowledgement. Raises: ApiError, as
        `acknowledge`.
        """
        said: list[tuple[int, int, Acknowledgement]] = []
        for first_offset, last_offset, kinds in words:
            self._check_end(first_offset, last_offset + 1)
            for first, last, kind in _of_one_kind(first_offset, last_offset, kinds):
                if last_offset < self.start_offset or first >= self.start_offset:
                    self._in_flight.check_held(first, last, member_id, now_ms)
                    said.append((first, last, kind))
                elif last >= self.start_offset:
                    self._in_flight.check_held(self.start_offset, last, member_id, now_ms)
                    said.append((self.start_offset, last, kind))
        settled: list[Batch] = []
        for first, last, kind in said:
            if kind is Acknowledgement.RENEW:
                self._renew(first, last, now_ms + self.limits.record_lock_duration_ms)
            else:
                self._say(first, last, kind, settled)
        return Write(tuple(settled))

    def _renew(self, first_offset: int, last_offset: int, until_ms: int) -> None:
        for batch in self._in_flight.cut(first_offset, last_offset):
            batch.lock_until_ms = until_ms
        self._in_flight.join(first_offset, last_offset)
        self.locks.add(until_ms, first_offset, last_offset)

    def _say(self, first_offset: int, last_offset: int, kind: Acknowledgement, settled: list[Batch]) -> None:
        """Note an acknowledgement, and the state to write."""
        for batch in self._in_flight.cut(first_offset, last_offset):
            batch.is_settling = True
            after, batch.cause = self._after(batch, kind)
            batch.reason = _REASONS.get(kind)
            before, count = settled[-1] if settled else None, batch.delivery_count
            if (
                before is not None
                and before.last_offset + 1 == batch.first_offset
                and (before.state, before.delivery_count) == (after, count)
            ):
                settled[-1] = Batch(before.first_offset, batch.last_offset, after, count)
            else:
                settled.append(Batch(batch.first_offset, batch.last_offset, after, count))

    def archive(self, first_offset: int, last_offset: int) -> Write:
        """Archive acquired records of these offsets: nobody may see them, such as aborted ones."""
        first = max(first_offset, self.start_offset)
        taken = [
            batch
            for each in self._in_flight.between(first, last_offset)
            if each.is_held
            for batch in self._in_flight.cut(
                max(each.first_offset, first), min(each.last_offset, last_offset)
            )
        ]
        for batch in taken:
            self._let_go(batch, RecordState.ARCHIVED)
        return self._written(taken)

    def dead(self, first_offset: int, last_offset: int) -> tuple[DeadRecords, ...]:
        """Return which of these offsets need dead letters, now that their state is written."""
        found: list[DeadRecords] = []
        first_offset = max(first_offset, self.start_offset)
        for batch in self._in_flight.between(first_offset, last_offset):
            if batch.state is not RecordState.ARCHIVING:
                continue
            first, last = max(batch.first_offset, first_offset), min(batch.last_offset, last_offset)
            count, cause = batch.delivery_count, batch.cause
            before = found[-1] if found else None
            if before is not None and before == DeadRecords(before.first_offset, first - 1, count, cause):
                first = found.pop().first_offset
            found.append(DeadRecords(first, last, count, cause))
        return tuple(found)

    def buried(self, first_offset: int, last_offset: int, now_ms: int, *, is_written: bool) -> Write:
        """Archive these, whose dead letters are written, and return the state to write.

        `is_written` tells whether there are any: with wrong settings none is ever written.
        """
        taken = [
            batch
            for batch in self._in_flight.cut(max(first_offset, self.start_offset), last_offset)
            if batch.state is RecordState.ARCHIVING
        ]
        outcome = Outcome.DEAD_LETTER if is_written else Outcome.NO_DEAD_LETTER
        for batch in taken:
            self.delivery_events.add(
                now_ms,
                outcome,
                None,
                batch.first_offset,
                batch.last_offset,
                member_id="",
                delivery_count=batch.delivery_count,
            )
            self._let_go(batch, RecordState.ARCHIVED)
        return self._written(taken)

    def settle(self, write: Write, now_ms: int, *, is_durable: bool) -> None:
        """Apply the written state, or leave it with its member if the write failed.

        State before the log's start is dropped.
        """
        for written in write.batches:
            for batch in self._in_flight.cut(written.first_offset, written.last_offset):
                batch.is_settling = False
                if is_durable:
                    if written.state is not RecordState.ACKNOWLEDGED and batch.reason is not None:
                        self._note(now_ms, batch, written.state, batch.reason)
                    self._let_go(batch, written.state)
                else:  # Its lock may have expired meanwhile, without notice.
                    batch.cause = batch.reason = None
                    self.locks.add(batch.lock_until_ms, batch.first_offset, batch.last_offset)
            self._in_flight.join(written.first_offset, written.last_offset)
        self._move_start()

    def expire_locks(self, now_ms: int) -> Write:
        """Release records whose locks have expired, and return the state to write."""
        return self._take_back(self.locks.take_ended(now_ms), now_ms, Reason.LOCK_ENDED)

    def release_member(self, member_id: str, now_ms: int, reason: Reason = Reason.SESSION_CLOSED) -> Write:
        """Release the records of a member whose session has ended.

        They count as delivered, as in Kafka: a record that ends each process that gets it is archived in the
        end.
        """
        held = [each for each in self._in_flight if each.member_id == member_id and each.is_held]
        return self._take_back(held, now_ms, reason)

    def holds(self, member_id: str) -> bool:
        """Return whether a member has records that it has yet to say something of."""
        return any(each.member_id == member_id and each.is_held for each in self._in_flight)

    @property
    def in_flight(self) -> InFlightBatches:
        """The batches between the start and the end, read-only."""
        return self._in_flight

    @property
    def is_idle(self) -> bool:
        """Whether nothing is acquired, no write is running, and no dead letter is missing."""
        return not any(
            each.state in (RecordState.ACQUIRED, RecordState.ARCHIVING) for each in self._in_flight
        )

    @property
    def has_room(self) -> bool:
        """Whether unread records may be delivered."""
        return self._in_flight.record_count < self.limits.max_record_locks

    @property
    def done_count(self) -> int:
        """How many records behind the start are done with."""
        return self._done

    def log_starts_at(self, offset: int) -> None:
        """Drop records deleted from the log: they are archived, even if acquired."""
        for batch in self._in_flight.drop_until(offset):
            if batch.state in FINAL:
                self._done -= batch.record_count
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, offset)
        first = self._in_flight.first
        if first is not None and first.state is RecordState.AVAILABLE:
            heappush(self._available, first.first_offset)
        self._move_start()

    def next_fetch_offset(self) -> int:
        """From where to read for the next member: the first available record, or the end."""
        while self._available:
            batch = self._in_flight.at(self._available[0])
            if batch is not None and batch.state is RecordState.AVAILABLE:
                return batch.first_offset
            heappop(self._available)
        return self.end_offset

    def batches(self) -> tuple[Batch, ...]:
        """All that is in flight, in the order of offsets."""
        return merged(tuple(self._in_flight))

    def _add(self, batch: InFlightBatch) -> None:
        """Take up a batch, which is the last one from now on."""
        if batch.state in FINAL:
            self._done += batch.record_count
        elif batch.state is RecordState.AVAILABLE:
            heappush(self._available, batch.first_offset)
        self.end_offset = batch.last_offset + 1
        self._in_flight.append(batch)

    def _let_go(self, batch: InFlightBatch, state: RecordState) -> None:
        batch.state = state
        batch.member_id = ""
        batch.lock_until_ms = batch.since_ms = 0
        batch.reason = None
        if state in FINAL:
            self._done += batch.record_count
            batch.cause = None
        elif state is RecordState.AVAILABLE:
            heappush(self._available, batch.first_offset)

    def _restore(self, batch: Batch) -> None:
        """Put a written batch in place. Nothing is acquired after a restart."""
        first = max(batch.first_offset, self.end_offset)
        if batch.last_offset < first:
            return
        if self.end_offset < first:
            self._add(InFlightBatch(self.end_offset, first - 1))
        state = RecordState.AVAILABLE if batch.state is RecordState.ACQUIRED else batch.state
        self._add(InFlightBatch(first, batch.last_offset, state, batch.delivery_count))

    def _check_end(self, first_offset: int, end_offset: int) -> None:
        """Check that a run starts before the records in flight, or ends in them.

        Raises: ApiError, as Kafka.
        """
        first = self._in_flight.first
        if end_offset > self.end_offset and first is not None and first.first_offset <= first_offset:
            raise ApiError(ErrorCode.INVALID_REQUEST)

    def _after(self, batch: InFlightBatch, kind: Acknowledgement) -> tuple[RecordState, Cause | None]:
        """In which state an acknowledgement leaves records, and why where it gives them up."""
        if kind is Acknowledgement.ACCEPT:
            return RecordState.ACKNOWLEDGED, None
        if kind is Acknowledgement.RELEASE and batch.delivery_count < self.limits.delivery_count_limit:
            return RecordState.AVAILABLE, None
        if kind is Acknowledgement.GAP or not self.limits.has_dead_letters:
            return RecordState.ARCHIVED, None
        is_rejected = kind is Acknowledgement.REJECT
        return RecordState.ARCHIVING, Cause.REJECTED if is_rejected else Cause.DELIVERED_TOO_OFTEN

    def _note(self, now_ms: int, batch: InFlightBatch, state: RecordState, reason: Reason) -> None:
        """Note what makes records leave their member's hands, before they do."""
        self.delivery_events.add(
            now_ms,
            _OUTCOMES[state],
            reason,
            batch.first_offset,
            batch.last_offset,
            member_id=batch.member_id,
            delivery_count=batch.delivery_count,
        )

    def _take_back(self, taken: Sequence[InFlightBatch], now_ms: int, reason: Reason) -> Write:
        """Release these, which are reported in the order of their offsets."""
        for batch in taken:
            after, batch.cause = self._after(batch, Acknowledgement.RELEASE)
            self._note(now_ms, batch, after, reason)
            self._let_go(batch, after)
        return self._written(taken)

    def _written(self, changed: Sequence[InFlightBatch]) -> Write:
        """Return the state to write for changed batches."""
        write = Write(merged(changed))
        for each in write.batches:
            self._in_flight.join(each.first_offset, each.last_offset)
        self._move_start()
        return write

    def _move_start(self) -> None:
        """Remove completed batches at the front."""
        self._done -= self._in_flight.drop_final()
        first = self._in_flight.first
        self.start_offset = self.end_offset if first is None else first.first_offset


_REASONS = {Acknowledgement.RELEASE: Reason.RELEASED, Acknowledgement.REJECT: Reason.REJECTED}
_OUTCOMES = {
    RecordState.AVAILABLE: Outcome.COMES_AGAIN,
    RecordState.ARCHIVING: Outcome.WAITS_FOR_DEAD_LETTER,
    RecordState.ARCHIVED: Outcome.GIVEN_UP,
}


def _of_one_kind(
    first_offset: int, last_offset: int, kinds: Sequence[Acknowledgement]
) -> Iterator[tuple[int, int, Acknowledgement]]:
    """Yield runs with the same acknowledgement."""
    if len(kinds) == 1:
        yield first_offset, last_offset, kinds[0]
        return
    for kind, alike in groupby(kinds):
        last = first_offset + sum(1 for _ in alike) - 1
        yield first_offset, last, kind
        first_offset = last + 1
