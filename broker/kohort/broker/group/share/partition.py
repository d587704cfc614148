"""The records of one partition as a share group has them: acquired, acknowledged, released, archived.

Acquiring is in memory alone. What a member acknowledges is settled in two steps: `acknowledge` says what has
to be written, `settle` takes it over once it is, or puts it back. Kafka: SharePartition.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kohort.broker.group.share.record import FINAL, Acknowledgement, Batch, InFlight, RecordState
from kohort.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group's settings allow."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    max_record_locks: int = 2_000


@dataclass(frozen=True, slots=True)
class Write:
    """States to be made durable, and then settled."""

    batches: tuple[Batch, ...]


class SharePartition:
    """One partition in one share group.

    Offsets below `start_offset` are done with, those from `end_offset` on untouched.
    """

    def __init__(self, start_offset: int, limits: Limits, batches: Iterable[Batch] = ()) -> None:
        """Begin at an offset, with the states that were written. What none of them names is available."""
        self.limits = limits
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._records: dict[int, InFlight] = {}
        for batch in sorted(batches, key=lambda each: each.first_offset):
            self._restore(batch)
        self._move_start()

    def acquire(
        self, member_id: str, first_offset: int, last_offset: int, max_records: int, now_ms: int
    ) -> tuple[Batch, ...]:
        """Lock for a member what is available of the offsets read, and return it; both ends are included."""
        acquired: list[int] = []
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
                record = self._records[offset] = InFlight()
                self.end_offset = offset + 1
            if record.state is RecordState.AVAILABLE:
                record.state = RecordState.ACQUIRED
                record.delivery_count += 1
                record.member_id = member_id
                record.lock_until_ms = now_ms + self.limits.record_lock_duration_ms
                acquired.append(offset)
        return self._batches(acquired)

    def acknowledge(
        self, member_id: str, first_offset: int, kinds: Sequence[Acknowledgement], now_ms: int
    ) -> Write:
        """Take a member's word for offsets from the first on, and return what has to be written.

        Raises:
            ApiError: INVALID_RECORD_STATE if this member does not hold one of them; nothing has changed then.
        """
        records = [
            self._held(offset, member_id, now_ms) for offset in range(first_offset, first_offset + len(kinds))
        ]
        settled: list[Batch] = []
        for offset, (record, kind) in enumerate(zip(records, kinds, strict=True), first_offset):
            if kind is Acknowledgement.RENEW:
                record.lock_until_ms = now_ms + self.limits.record_lock_duration_ms
            else:
                record.is_settling = True
                settled.append(Batch(offset, offset, self._after(record, kind), record.delivery_count))
        return Write(_merged(settled))

    def settle(self, write: Write, *, is_durable: bool) -> None:
        """Take over what was written, or leave it with its member if it could not be."""
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                record = self._records.get(offset)
                if record is None:
                    continue  # The log's start has passed it meanwhile.
                record.is_settling = False
                if is_durable:
                    record.state = batch.state
                    record.member_id = ""
        self._move_start()

    def expire_locks(self, now_ms: int) -> Write:
        """Take back what members have held for too long, and return what is to be written of it."""
        return self._take_back([o for o, record in self._held_records() if record.lock_until_ms <= now_ms])

    def release_member(self, member_id: str) -> Write:
        """Take back all that a member holds whose session has ended."""
        return self._take_back([o for o, record in self._held_records() if record.member_id == member_id])

    def next_lock_timeout_ms(self) -> int | None:
        """When the first lock ends, or None if nothing is held that could come back."""
        return min((record.lock_until_ms for _, record in self._held_records()), default=None)

    def log_starts_at(self, offset: int) -> None:
        """Forget what the log has deleted: it is archived, in whosever hands it is."""
        for passed in [each for each in self._records if each < offset]:
            del self._records[passed]
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, offset)
        self._move_start()

    def next_fetch_offset(self) -> int:
        """From where to read for the next member: the first available record, or the end."""
        available = (offset for offset, r in self._records.items() if r.state is RecordState.AVAILABLE)
        return min(available, default=self.end_offset)

    def batches(self) -> tuple[Batch, ...]:
        """All that is in flight, in the order of offsets."""
        return self._batches(sorted(self._records))

    def _held_records(self) -> Iterable[tuple[int, InFlight]]:
        """What could come back from its member, with its offset: not what is being written."""
        for offset, record in self._records.items():
            if record.state is RecordState.ACQUIRED and not record.is_settling:
                yield offset, record

    def _restore(self, batch: Batch) -> None:
        """Put a written batch in place. Nobody holds anything after a restart."""
        for offset in range(self.end_offset, batch.first_offset):
            self._records[offset] = InFlight()
        state = RecordState.AVAILABLE if batch.state is RecordState.ACQUIRED else batch.state
        for offset in range(max(batch.first_offset, self.start_offset), batch.last_offset + 1):
            self._records[offset] = InFlight(state, batch.delivery_count)
        self.end_offset = max(self.end_offset, batch.last_offset + 1)

    def _held(self, offset: int, member_id: str, now_ms: int) -> InFlight:
        record = self._records.get(offset)
        if (
            record is None
            or record.state is not RecordState.ACQUIRED
            or record.member_id != member_id
            or record.is_settling
            or record.lock_until_ms <= now_ms
        ):
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)
        return record

    def _after(self, record: InFlight, kind: Acknowledgement) -> RecordState:
        """In which state an acknowledgement leaves a record."""
        if kind is Acknowledgement.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if kind is Acknowledgement.RELEASE and record.delivery_count < self.limits.delivery_count_limit:
            return RecordState.AVAILABLE
        return RecordState.ARCHIVED

    def _take_back(self, offsets: list[int]) -> Write:
        for offset in offsets:
            record = self._records[offset]
            record.state = self._after(record, Acknowledgement.RELEASE)
            record.member_id = ""
        write = Write(self._batches(sorted(offsets)))
        self._move_start()
        return write

    def _move_start(self) -> None:
        """Let go of what is done with at the front."""
        self.start_offset = min(
            (o for o, r in self._records.items() if r.state not in FINAL), default=self.end_offset
        )
        for passed in [offset for offset in self._records if offset < self.start_offset]:
            del self._records[passed]

    def _batches(self, offsets: Iterable[int]) -> tuple[Batch, ...]:
        singles = ((offset, self._records[offset]) for offset in offsets)
        return _merged(
            [Batch(offset, offset, record.state, record.delivery_count) for offset, record in singles]
        )


def _merged(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Batches in order, those that touch and are alike made one."""
    merged: list[Batch] = []
    for batch in batches:
        last = merged[-1] if merged else None
        if (
            last
            and last.last_offset + 1 == batch.first_offset
            and (last.state, last.delivery_count) == (batch.state, batch.delivery_count)
        ):
            merged[-1] = Batch(last.first_offset, batch.last_offset, batch.state, batch.delivery_count)
        else:
            merged.append(batch)
    return tuple(merged)
