"""Record batches from records: all at once, or one record after the other as a producer does."""

from collections.abc import Iterable, Sequence

import crc32c

from kohort.protocol.records.compression import compress
from kohort.protocol.records.header import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Compression,
)
from kohort.protocol.records.varint import VARINTS, encode_varint

RecordHeaders = Sequence[tuple[str, bytes | None]]
RecordFields = tuple[int, bytes | None, bytes | None, RecordHeaders]  # timestamp_ms, key, value, headers

_MAX_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5  # Length, attributes, two deltas, two lengths, a count.
_TABLE_SIZE = len(VARINTS)
_NULL = encode_varint(-1)


def encode_record(
    offset_delta: int, time_delta_ms: int, key: bytes | None, value: bytes | None, headers: RecordHeaders
) -> bytes:
    """Return one record's bytes, its length before it."""
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

    Raises: ValueError when there are none.
    """
    builder = RecordBatchBuilder(compression=compression)
    append = builder.append
    for timestamp_ms, key, value, headers in records:
        append(timestamp_ms, key, value, headers)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )


class RecordBatchBuilder:
    """A batch that grows record by record until it is built, once or again with other numbers."""

    __slots__ = ("_base_timestamp", "_compression", "_max_timestamp", "_parts", "_size_bytes")

    def __init__(self, *, compression: Compression = Compression.NONE) -> None:
        self._compression = compression
        self._parts: list[bytes] = []
        self._size_bytes = HEADER_BYTES
        self._base_timestamp = self._max_timestamp = 0

    @property
    def size_bytes(self) -> int:
        """The batch's size as it stands, before compression, which only makes it smaller."""
        return self._size_bytes

    @property
    def record_count(self) -> int:
        """How many records were appended."""
        return len(self._parts)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: RecordHeaders = (),
    ) -> int:
        """Return the record's place in the batch, counted from 0: its offset is the base offset plus it."""
        parts = self._parts
        offset_delta = len(parts)
        if not offset_delta:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        record = encode_record(offset_delta, timestamp_ms - self._base_timestamp, key, value, headers)
        parts.append(record)
        self._size_bytes += len(record)
        return offset_delta

    def build(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> bytes:
        """Return the batch. Raises: ValueError when nothing was appended."""
        if not self._parts:
            raise ValueError("a batch has one record at least")
        payload = b"".join(self._parts)
        if self._compression is not Compression.NONE:
            payload = compress(self._compression, payload)
        attributes = self._compression.value
        attributes |= (TRANSACTIONAL_FLAG if is_transactional else 0) | (CONTROL_FLAG if is_control else 0)
        count = len(self._parts)
        header = bytearray(
            HEADER.pack(
                base_offset,
                HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
                leader_epoch,
                MAGIC,
                0,
                attributes,
                count - 1,
                self._base_timestamp,
                self._max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                count,
            )
        )
        crc = crc32c.crc32c(payload, crc32c.crc32c(bytes(header[CRC_COVERS_FROM:])))
        header[CRC_POSITION:CRC_COVERS_FROM] = crc.to_bytes(4, "big")
        return b"".join((header, payload))


def max_record_bytes(key: bytes | None, value: bytes | None, headers: RecordHeaders = ()) -> int:
    """Return an upper bound of what one more record adds to a batch, for a producer's batch size."""
    size = _MAX_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(10 + 4 * len(name) + len(content or b"") for name, content in headers)
