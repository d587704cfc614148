"""What a log knows about its producers: their last sequence numbers and their open transactions.

Source: KIP-98; org.apache.kafka.storage.internals.log.ProducerStateManager, ProducerAppendInfo.
Snapshot file (`%020d.snapshot`): version int16, CRC-32C uint32 of what follows, count int32, then per
producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp
int64, coordinator epoch int32, first offset of its open transaction int64. Behind these, where Kafka reads
no further, the batches before each producer's last one: count int32, then per batch producer id int64, last
sequence int32, last offset int64, offset delta int32, timestamp int64, the oldest first.
"""

import struct
from collections.abc import Iterator

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    ControlType,
    iterate_records,
    read_control_type,
    read_coordinator_epoch,
)

BATCHES_KEPT = 5  # As many requests as an idempotent producer may have in flight.
SNAPSHOT_SUFFIX = ".snapshot"

_SNAPSHOT_VERSION = 1
_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_EARLIER_BATCH = struct.Struct(">qiqiq")
_SEQUENCE_MAX = 2**31 - 1
_NONE = -1


class ProducedBatch(msgspec.Struct, frozen=True, gc=False):
    """One of a producer's last batches: identifies a repeated one, and has the answer for it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """The offset that the batch got."""
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        """The first sequence number."""
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MAX


class ProducerState(msgspec.Struct, gc=False):
    """One producer id: its newest epoch, its last batches in order, its open transaction.

    There may be many, one for each producer of the last day in each partition: about 350 bytes after
    one batch, 700 after five. So the batches are a tuple: a deque alone takes 600.
    """

    epoch: int
    batches: tuple[ProducedBatch, ...]
    last_timestamp: int
    coordinator_epoch: int = _NONE
    transaction_first_offset: int = _NONE
    markers: int = 0
    """How many of its markers were appended since the log was opened."""

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 when no batch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class EndedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction from its first record to its marker, and the first offset still open after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool


class ProducerStateTable:
    """All producers of one log, by their ids."""

    __slots__ = ("_open", "_states")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # Where each open transaction starts, the first one first.

    def __len__(self) -> int:
        return len(self._states)

    def items(self) -> Iterator[tuple[int, ProducerState]]:
        """Iterate over the producer ids and their states."""
        return iter(self._states.items())

    def copy(self) -> "ProducerStateTable":
        """Return an independent copy."""
        table = ProducerStateTable()
        for producer_id, state in self._states.items():
            table._states[producer_id] = msgspec.structs.replace(state)
        table._open = self._open.copy()
        return table

    def get(self, producer_id: int) -> ProducerState | None:
        """Return the state of a producer."""
        return self._states.get(producer_id)

    @property
    def first_open_offset(self) -> int | None:
        """Where the first open transaction starts, None if none is open."""
        return next(iter(self._open.values())) if self._open else None

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """Return the batch that `header`'s repeats, None if `header`'s may be appended.

        Raises: ApiError with INVALID_PRODUCER_EPOCH for a fenced producer, OUT_OF_ORDER_SEQUENCE_NUMBER
        for a gap or for a repetition of more than five batches ago, INVALID_TXN_STATE for a batch of no
        transaction within one.
        """
        if header.producer_id <= NO_PRODUCER_ID:  # As Kafka: below -1 is no producer either.
            return None
        if header.producer_epoch < NO_PRODUCER_EPOCH:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {header.producer_epoch} of a producer")
        state = self._states.get(header.producer_id)
        if state is None:
            return None  # Its records may have been deleted, so any sequence number is accepted.
        if header.producer_epoch == state.epoch:
            base, last = header.base_sequence, header.last_sequence
            for batch in state.batches:
                if batch.last_sequence == last and batch.base_sequence == base:
                    return batch
        _check_order(state, header)
        if state.transaction_first_offset != _NONE and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} is within a transaction"
            )
        return None

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, is_bumped: bool = False
    ) -> None:
        """Pass a marker of the newest coordinator for a producer that has no newer epoch.

        A marker that `is_bumped` has a newer epoch than the records that it ends: if records of its own epoch
        are open, it is a late duplicate, and they belong to the producer's next transaction (KIP-1228).
        Raises: ApiError with TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH.
        """
        state = self._states.get(producer_id)
        if state is None:
            return
        if producer_epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {producer_epoch} for producer {producer_id}, the log knows {state.epoch}",
            )
        if is_bumped and self.is_open(producer_id, producer_epoch):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {producer_epoch}: by that producer {producer_id} is a transaction ahead",
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {coordinator_epoch}, the log knows {state.coordinator_epoch}",
            )

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer, by this epoch, is within a transaction here."""
        state = self._states.get(producer_id)
        return state is not None and state.epoch == producer_epoch and state.transaction_first_offset != _NONE

    def markers_of(self, producer_id: int) -> int:
        """Return a number that grows with each marker for this producer."""
        state = self._states.get(producer_id)
        return 0 if state is None else state.markers

    def append(self, header: BatchHeader, base_offset: int, batch: Buffer) -> EndedTransaction | None:
        """Note that `batch`, with `header`, got `base_offset`; return the transaction that it ends."""
        producer_id = header.producer_id
        if producer_id <= NO_PRODUCER_ID:
            return None
        state = self._states.get(producer_id)
        if state is None:
            state = ProducerState(header.producer_epoch, (), header.max_timestamp)
            self._states[producer_id] = state
        elif header.producer_epoch != state.epoch:
            state.epoch = header.producer_epoch
            state.batches = ()
        state.last_timestamp = header.max_timestamp
        if header.is_control:
            return self._end_transaction(state, header, base_offset, batch)
        delta = header.last_offset_delta
        newest = ProducedBatch(header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        state.batches = (*state.batches[1 - BATCHES_KEPT :], newest)
        if header.is_transactional and state.transaction_first_offset == _NONE:
            state.transaction_first_offset = self._open[producer_id] = base_offset
        return None

    def _end_transaction(
        self, state: ProducerState, header: BatchHeader, base_offset: int, batch: Buffer
    ) -> EndedTransaction | None:
        """Apply a control batch; one that compaction has emptied counts as a commit, or as nothing."""
        kind, coordinator_epoch = _read_marker(batch) if header.record_count else (ControlType.COMMIT, _NONE)
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        first_offset, state.transaction_first_offset = state.transaction_first_offset, _NONE
        state.coordinator_epoch = max(state.coordinator_epoch, coordinator_epoch)
        state.markers += 1
        self._open.pop(header.producer_id, None)
        if first_offset == _NONE:
            return None
        last_offset = base_offset + header.last_offset_delta
        first_open = self.first_open_offset
        return EndedTransaction(
            header.producer_id,
            first_offset,
            last_offset,
            last_offset + 1 if first_open is None else first_open,
            kind is ControlType.ABORT,
        )

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for `expiration_ms` and have no open transaction.

        Return how many.
        """
        expired = self._expired(now_ms, expiration_ms)
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether `remove_expired` would remove any producer."""
        return bool(self._expired(now_ms, expiration_ms))

    def _expired(self, now_ms: int, expiration_ms: int) -> list[int]:
        return [
            producer_id
            for producer_id, state in self._states.items()
            if state.transaction_first_offset == _NONE and now_ms - state.last_timestamp >= expiration_ms
        ]

    def encode_snapshot(self) -> bytes:
        """Return a snapshot file's content."""
        parts = [_COUNT.pack(len(self._states))]
        for producer_id, state in self._states.items():
            newest = state.batches[-1] if state.batches else _NO_BATCH
            parts.append(
                _ENTRY.pack(
                    producer_id,
                    state.epoch,
                    newest.last_sequence,
                    newest.last_offset,
                    newest.offset_delta,
                    state.last_timestamp,
                    state.coordinator_epoch,
                    state.transaction_first_offset,
                )
            )
        parts += self._encode_earlier_batches()
        body = b"".join(parts)
        return _PREFIX.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    def _encode_earlier_batches(self) -> list[bytes]:
        """Return the snapshot's part with the batches before each producer's last one.

        Their answers may have been lost with the broker that stops: the producer sends them again.
        """
        earlier = [
            _EARLIER_BATCH.pack(
                producer_id, batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp
            )
            for producer_id, state in self._states.items()
            for batch in state.batches[:-1]
        ]
        return [_COUNT.pack(len(earlier)), *earlier]

    @classmethod
    def decode_snapshot(cls, content: bytes | None) -> "ProducerStateTable | None":
        """Return the content of a snapshot file, None if it is missing or damaged: the log has it too."""
        if content is None or len(content) < _PREFIX.size + _COUNT.size:
            return None
        version, crc = _PREFIX.unpack_from(content)
        body = content[_PREFIX.size :]
        if version != _SNAPSHOT_VERSION or crc32c(body) != crc:
            return None
        parts = _split_snapshot(body)
        if parts is None:
            return None
        entries, earlier = parts
        table = cls()
        for fields in _ENTRY.iter_unpack(entries):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first = (
                fields
            )
            batches: tuple[ProducedBatch, ...] = ()
            if last_sequence != NO_SEQUENCE:
                batches = (ProducedBatch(last_sequence, last_offset, delta, timestamp),)
            table._states[producer_id] = ProducerState(epoch, batches, timestamp, coordinator_epoch, first)
        for producer_id, last_sequence, last_offset, delta, timestamp in _EARLIER_BATCH.iter_unpack(earlier):
            state = table._states.get(producer_id)
            if state is None or not state.batches:
                return None
            batch = ProducedBatch(last_sequence, last_offset, delta, timestamp)
            state.batches = (*state.batches[:-1], batch, state.batches[-1])
        begun = [
            (state.transaction_first_offset, producer_id)
            for producer_id, state in table._states.items()
            if state.transaction_first_offset != _NONE
        ]
        table._open = {producer_id: first for first, producer_id in sorted(begun)}
        return table


_NO_BATCH = ProducedBatch(NO_SEQUENCE, _NONE, 0, NO_TIMESTAMP)


def _split_snapshot(body: bytes) -> tuple[bytes, bytes] | None:
    """Return the entries of a snapshot, and the batches after them; None if their sizes are wrong.

    Kafka, and older versions of kohort, write no batches after the entries.
    """
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * _ENTRY.size
    if count < 0 or len(body) < end:
        return None
    entries, rest = body[_COUNT.size : end], body[end:]
    if not rest:
        return entries, b""
    if len(rest) < _COUNT.size:
        return None
    (count,) = _COUNT.unpack_from(rest)
    earlier = rest[_COUNT.size :]
    return (entries, earlier) if len(earlier) == count * _EARLIER_BATCH.size else None


def _read_marker(batch: Buffer) -> tuple[ControlType, int]:
    """Return the content of a control batch, and its coordinator's epoch; UNKNOWN if it is invalid."""
    try:
        record = next(iterate_records(batch))
        kind = read_control_type(record.key)
        is_marker = kind in (ControlType.COMMIT, ControlType.ABORT)
        return kind, read_coordinator_epoch(record) if is_marker else _NONE
    except (StopIteration, WireError):
        return ControlType.UNKNOWN, _NONE


def _check_order(state: ProducerState, header: BatchHeader) -> None:
    """Raise the ApiError that Kafka sends for a batch that does not follow the producer's last one."""
    if header.producer_epoch < state.epoch:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} has epoch {header.producer_epoch}, the log knows {state.epoch}",
        )
    if header.is_control:
        return
    if header.producer_epoch > state.epoch:
        if header.base_sequence != 0 and state.epoch != NO_PRODUCER_EPOCH:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins its epoch with sequence {header.base_sequence}",
            )
        return
    last = state.last_sequence
    follows = header.base_sequence == last + 1 or (last == _SEQUENCE_MAX and header.base_sequence == 0)
    if not follows:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence} behind {last}",
        )
