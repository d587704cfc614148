"""What compaction keeps of a log: the newest record of each key, tombstones for a while, every promise.

All of it works on batches in memory. Transaction markers stay until nothing is left of their transaction
and their delete horizon has passed; the last batch of each known producer stays, without its records if
needed, since its sequence numbers are there; the last batch of a round stays, so that the log end offset
stays.
Source: org.apache.kafka.storage.internals.log.Cleaner, CleanedTransactionMetadata; KIP-534.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kohort.protocol.digest import blake2b
from kohort.protocol.records import (
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    ControlType,
    KeptRecord,
    empty_batch,
    iterate_records,
    plain_payload,
    read_control_type,
    rewrite_batch,
    scan_records,
)

KEY_BYTES_MAX = 32  # A longer key is remembered by a digest of this size, which no shorter key can equal.


class AbortedTransaction(msgspec.Struct, frozen=True):
    """An aborted transaction of a producer, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int = -1
    """The first offset that was still open when this one ended; -1 if unknown."""


class LastBatch(msgspec.Struct, frozen=True):
    """The last write of a producer: its last data offset (-1: only a marker is known), and its epoch."""

    last_offset: int
    epoch: int


class Transactions:
    """Follows the transactions through batches that are shown to it in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, bool] = {}  # By producer id: whether a batch of it was seen.
        self._committed: set[int] = set()

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            self._aborted[self._to_come.pop().producer_id] = False

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of data belongs to a transaction that was aborted."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """Return whether a control batch ends a transaction of which no batch is left. Raises: WireError."""
        self._begin_up_to(header.last_offset)
        kind = read_marker(batch)
        if kind is None:
            return True
        if kind is ControlType.ABORT:
            return not self._aborted.pop(header.producer_id, False)
        if kind is ControlType.COMMIT:
            was_seen = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_seen
        return False


def read_marker(batch: Buffer) -> ControlType | None:
    """Return the content of a control batch, None when compaction has emptied it. Raises: WireError."""
    record = next(iterate_records(batch), None)
    return None if record is None else read_control_type(record.key)


class NewestOffsets:
    """The newest offset of each key, for as many keys as fit. `latest` is the last offset read."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.latest = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no more batches should be added; the batch that fills the map is added completely."""
        return len(self._offsets) >= self._keys_max

    def note(self, header: BatchHeader, batch: Buffer) -> None:
        """Note the records of a batch of data that was not aborted. Raises: WireError."""
        offsets = self._offsets
        for record in scan_records(plain_payload(batch, header), header):
            key = record.key
            if key is not None:
                offsets[key if len(key) < KEY_BYTES_MAX else _digest(key)] = record.offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Return whether no newer record of the key was noted."""
        return self._offsets.get(key if len(key) < KEY_BYTES_MAX else _digest(key), -1) <= offset


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=KEY_BYTES_MAX).digest()


class BatchFilter:
    """Returns the kept part of each batch, in order."""

    def __init__(
        self,
        newest: NewestOffsets,
        transactions: Transactions,
        last_batches: Mapping[int, LastBatch],
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._newest = newest
        self._transactions = transactions
        self._last_batches = last_batches
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def keep(self, header: BatchHeader, batch: Buffer, *, must_stay: bool = False) -> Buffer | None:
        """Return the unchanged batch, one with fewer or no records, or None if it can be removed.

        Raises: WireError.
        """
        horizon = header.base_timestamp if header.has_delete_horizon else None
        if header.is_control:
            is_spent = self._transactions.is_spent(header, batch)
            is_gone = is_spent and horizon is not None and horizon <= self._now_ms
        else:
            is_spent, is_gone = False, self._transactions.is_aborted(header)
        kept: list[KeptRecord] = []
        payload = b""
        if not is_gone and header.record_count:
            payload = plain_payload(batch, header)
            kept = self._kept_records(header, payload, horizon)
        if not kept:
            if not must_stay and not self._is_needed(header):
                return None
            return batch if not header.record_count else empty_batch(header)
        new_horizon = None
        if horizon is None and (is_spent or not all(record.has_value for record in kept)):
            new_horizon = self._now_ms + self._delete_retention_ms
        if new_horizon is None and len(kept) == header.record_count:
            return batch
        return rewrite_batch(header, payload, kept, new_horizon)

    def _kept_records(self, header: BatchHeader, payload: bytes, horizon: int | None) -> list[KeptRecord]:
        records = scan_records(payload, header)
        if header.is_control or header.base_offset > self._newest.latest:
            return list(records)
        keeps_tombstones = horizon is None or self._now_ms < horizon
        is_newest, latest = self._newest.is_newest, self._newest.latest
        return [
            record
            for record in records
            if record.offset > latest
            or (
                record.key is not None
                and (record.has_value or keeps_tombstones)
                and is_newest(record.key, record.offset)
            )
        ]

    def _is_needed(self, header: BatchHeader) -> bool:
        """Return whether the batch stays without its records, because its header is needed."""
        if header.next_offset == self._end_offset:
            return True
        last = self._last_batches.get(header.producer_id) if header.producer_id > NO_PRODUCER_ID else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch
