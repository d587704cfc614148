"""Builds record batches: records are encoded first, then the header is added with the producer's numbers."""

from collections.abc import Iterable, Sequence

from kohort.protocol.checksum import crc32c
from kohort.protocol.records.compression import compress
from kohort.protocol.records.header import (
    CONTROL_FLAG,
    CRC_COVERS,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    UP_TO_CRC,
    Compression,
)
from kohort.protocol.records.varint import VARINTS, encode_varint

RecordHeaders = Sequence[tuple[str, bytes | None]]
RecordFields = tuple[int, bytes | None, bytes | None, RecordHeaders]  # timestamp_ms, key, value, headers

_MAX_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5  # Length, attributes, two deltas, two lengths, a count.
_TABLE_SIZE = len(VARINTS)
_TABLE_RECORD_BYTES = _TABLE_SIZE - 16  # Then the length of the whole record is in the table, too.
_ONE_BYTE_MAX = 64  # Varints of smaller numbers have one byte.
_NULL = encode_varint(-1)
_LENGTHS = tuple([each + b"\0" for each in VARINTS])  # A record's length and its attributes.
_VALUE_LENGTHS = tuple([b"\1" + each for each in VARINTS])  # A null key and the value's length.


class RecordWriter:
    """Collects a batch's records. Each is encoded when it is added, which is cheapest."""

    __slots__ = ("_parts", "base_timestamp_ms", "count", "max_timestamp_ms")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.count = 0
        self.base_timestamp_ms = 0  # of the first record
        self.max_timestamp_ms = 0

    def add(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: RecordHeaders) -> int:
        """Add a record and return its index in the batch. An exception leaves the writer unchanged.

        Between the change of `_parts` and of `count` there is no call, so a signal handler cannot raise
        there.
        """
        index = self.count
        if not index:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        time_delta_ms = timestamp_ms - self.base_timestamp_ms
        encoded: tuple[bytes, ...]
        if (
            key is None
            and value is not None
            and not headers
            and 0 <= time_delta_ms < _TABLE_SIZE
            and index < _TABLE_SIZE
            and len(value) < _TABLE_RECORD_BYTES
        ):  # The common record needs no call and no second list: this is a producer's hottest code.
            size, time, offset = len(value), VARINTS[time_delta_ms], VARINTS[index]
            length = _VALUE_LENGTHS[size]
            total = _LENGTHS[size + len(length) + len(time) + len(offset) + 2]
            encoded = total, time, offset, length, value, b"\0"
        else:
            encoded = (_encode_record(index, time_delta_ms, key, value, headers),)
        following = index + 1  # Computed now, because nothing may raise after the next line.
        self._parts += encoded
        self.count = following
        if timestamp_ms > self.max_timestamp_ms:  # noqa: PLR1730 - `max` would be a call.
            self.max_timestamp_ms = timestamp_ms
        return index

    def add_keys(self, timestamp_ms: int, keys: bytes, key_size: int, value: bytes) -> int:
        """Add a record for each key of `key_size` bytes in `keys`, and return the index of the first."""
        count = len(keys) // key_size
        index, following = self.count, self.count + count
        if not index:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        time_delta_ms = timestamp_ms - self.base_timestamp_ms
        encoded: list[bytes] = []
        if (
            0 <= time_delta_ms < _TABLE_SIZE
            and following <= _TABLE_SIZE
            and key_size + len(value) < _TABLE_RECORD_BYTES
        ):
            for first, last in (
                (index, min(following, _ONE_BYTE_MAX)),
                (max(index, _ONE_BYTE_MAX), following),
            ):
                if first < last:
                    some = keys[(first - index) * key_size : (last - index) * key_size]
                    offsets = VARINTS[first:last]
                    encoded.append(_encode_keys(offsets, VARINTS[time_delta_ms], some, key_size, value))
        else:
            for number in range(count):
                key = keys[number * key_size : (number + 1) * key_size]
                encoded.append(_encode_record(index + number, time_delta_ms, key, value, ()))
        self._parts += encoded
        self.count = following
        if timestamp_ms > self.max_timestamp_ms:  # noqa: PLR1730 - `max` would be a call.
            self.max_timestamp_ms = timestamp_ms
        return index

    def payload(self) -> bytes:
        """Return the bytes of all records. Raises: ValueError if there are none."""
        if not self._parts:
            raise ValueError("a batch has one record at least")
        return b"".join(self._parts)

    def clear(self) -> None:
        """Release the bytes and keep the count."""
        self._parts = []


def encode_records(records: Iterable[RecordFields]) -> bytes:
    """Return the bytes of a batch's records. Raises: ValueError if there are none."""
    parts: list[bytes] = []
    base_timestamp_ms = 0
    for index, (timestamp_ms, key, value, headers) in enumerate(records):
        if not index:
            base_timestamp_ms = timestamp_ms
        time_delta_ms = timestamp_ms - base_timestamp_ms
        if (
            key is not None
            and value is not None
            and not headers
            and (key_size := len(key)) + (size := len(value)) < _TABLE_RECORD_BYTES
            and 0 <= time_delta_ms < _TABLE_SIZE > index
        ):  # The common record of a broker's internal topics.
            time, offset = VARINTS[time_delta_ms], VARINTS[index]
            key_length, length = VARINTS[key_size], VARINTS[size]
            lengths_size = len(time) + len(offset) + len(key_length) + len(length)
            total = _LENGTHS[key_size + size + lengths_size + 2]
            parts += (total, time, offset, key_length, key, length, value, b"\0")
        else:
            parts.append(_encode_record(index, time_delta_ms, key, value, headers))
    if not parts:
        raise ValueError("a batch has one record at least")
    return b"".join(parts)


def _encode_keys(offsets: Sequence[bytes], time: bytes, keys: bytes, key_size: int, value: bytes) -> bytes:
    """Return records that differ in offset and key alone, and in the length of neither.

    They are as long as each other, so that a byte of all of them is written at once.
    """
    size, offset_size = len(value), len(offsets[0])
    key_length, length = VARINTS[key_size], VARINTS[size]
    lengths_size = len(time) + offset_size + len(key_length) + len(length)
    head = _LENGTHS[key_size + size + lengths_size + 2] + time
    first = b"".join((head, offsets[0], key_length, keys[:key_size], length, value, b"\0"))
    step, at = len(first), len(head)
    records = bytearray(first * len(offsets))
    joined = b"".join(offsets)
    for number in range(offset_size):
        records[at + number :: step] = joined[number::offset_size]
    at += offset_size + len(key_length)
    for number in range(key_size):
        column = keys[number::key_size]
        if column.lstrip(column[:1]):  # Otherwise the first record has what all have.
            records[at + number :: step] = column
    return bytes(records)


def _encode_record(
    offset_delta: int, time_delta_ms: int, key: bytes | None, value: bytes | None, headers: RecordHeaders
) -> bytes:
    """Return one record's bytes, with its length."""
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    body = b"".join(
        (
            b"\0",
            VARINTS[time_delta_ms] if 0 <= time_delta_ms < _TABLE_SIZE else encode_varint(time_delta_ms),
            VARINTS[offset_delta] if offset_delta < _TABLE_SIZE else encode_varint(offset_delta),
            VARINTS[key_size] if 0 <= key_size < _TABLE_SIZE else encode_varint(key_size),
            key or b"",
            VARINTS[value_size] if 0 <= value_size < _TABLE_SIZE else encode_varint(value_size),
            value or b"",
            _encode_headers(headers) if headers else b"\0",
        )
    )
    size = len(body)
    return (VARINTS[size] if size < _TABLE_SIZE else encode_varint(size)) + body


def _encode_headers(headers: RecordHeaders) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        parts += (encode_varint(len(key)), key)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


def build_batch(
    records: Iterable[RecordFields],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return one batch v2 of `records`, each (timestamp in ms, key, value, headers).

    Raises: ValueError if there are none.
    """
    rows = tuple(records)
    if not rows:
        raise ValueError("a batch has one record at least")
    payload = encode_records(rows)
    return seal_batch(
        payload if compression is Compression.NONE else compress(compression, payload),
        record_count=len(rows),
        base_timestamp_ms=rows[0][0],
        max_timestamp_ms=rows[0][0] if len(rows) == 1 else max(row[0] for row in rows),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def seal_batch(
    payload: bytes,
    *,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return the batch of a payload: records that are encoded and compressed already.

    A producer can change its epoch or sequence without encoding the records again.
    """
    attributes = compression.value
    attributes |= (TRANSACTIONAL_FLAG if is_transactional else 0) | (CONTROL_FLAG if is_control else 0)
    covered = CRC_COVERS.pack(
        attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    size = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload)
    crc = crc32c(payload, crc32c(covered))
    return b"".join((UP_TO_CRC.pack(base_offset, size, leader_epoch, MAGIC, crc), covered, payload))


def max_record_bytes(key: bytes | None, value: bytes | None, headers: RecordHeaders = ()) -> int:
    """Return an upper bound of a record's size in a batch, for a producer's `batch.size`."""
    size = _MAX_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if not headers:
        return size
    return size + sum(10 + 4 * len(name) + len(content or b"") for name, content in headers)
