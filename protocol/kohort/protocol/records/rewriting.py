"""Rewrites a batch with fewer records, for the log cleaner, or with another compression.

Kept records are copied without decoding. A batch with tombstones gets a delete horizon, the time from which
the cleaner may remove them: a flag in the attributes, and the time as the base timestamp, to which the
records' deltas are then relative.
Source: KIP-534; org.apache.kafka.common.record.MemoryRecords.filterTo.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import WireError
from kohort.protocol.records.compression import MAX_DECOMPRESSED_BYTES, compress, decompress
from kohort.protocol.records.header import (
    COMPRESSION_MASK,
    CRC_COVERS_FROM,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Compression,
)
from kohort.protocol.records.varint import encode_varint, read_varint


class KeptRecord(NamedTuple):
    """A record's range in its batch's decompressed payload, and the fields that a cleaner needs."""

    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    start: int
    stop: int


def plain_payload(batch: Buffer, header: BatchHeader) -> bytes:
    """Return the decompressed records of `batch`. Raises: WireError."""
    payload = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.compression is Compression.NONE or not header.record_count:
        return bytes(payload)
    return decompress(header.compression, payload, MAX_DECOMPRESSED_BYTES)


def scan_records(payload: bytes, header: BatchHeader) -> Iterator[KeptRecord]:
    """Yield each record of a decompressed payload. Raises: WireError if it does not match the header."""
    base_offset, position, end = header.base_offset, 0, len(payload)
    try:
        for _ in range(header.record_count):
            start = position
            size, position = read_varint(payload, position)
            stop = position + size
            if size < 0 or stop > end:
                raise WireError(f"a record has {size} bytes, but {end - position} are left")
            timestamp_delta, position = read_varint(payload, position + 1)
            offset_delta, position = read_varint(payload, position)
            key_size, position = read_varint(payload, position)
            key: bytes | None = None
            if key_size >= 0:
                key = payload[position : position + key_size]
                position += key_size
            value_size, _ = read_varint(payload, position)
            position = stop
            yield KeptRecord(base_offset + offset_delta, timestamp_delta, key, value_size >= 0, start, stop)
    except IndexError:
        raise WireError(f"the records of the batch at {base_offset} end early") from None


def rewrite_batch(
    header: BatchHeader, payload: bytes, kept: list[KeptRecord], delete_horizon_ms: int | None
) -> bytes:
    """Return the batch with only the `kept` records. Its base offset and last offset stay.

    A delete horizon becomes the base timestamp. Raises: WireError.
    """
    new = msgspec.structs.replace(header, record_count=len(kept))
    if not header.has_log_append_time:
        newest = header.base_timestamp + max(record.timestamp_delta for record in kept)
        new = msgspec.structs.replace(new, max_timestamp=newest)
    if delete_horizon_ms is None:
        return _assemble(new, b"".join(payload[record.start : record.stop] for record in kept))
    shift = header.base_timestamp - delete_horizon_ms
    attributes = header.attributes | DELETE_HORIZON_FLAG
    new = msgspec.structs.replace(new, attributes=attributes, base_timestamp=delete_horizon_ms)
    return _assemble(new, b"".join(_with_timestamp_delta(payload, record, shift) for record in kept))


def recompress(header: BatchHeader, payload: bytes, compression: Compression) -> bytes:
    """Return the batch with the same records in another compression."""
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    return _assemble(msgspec.structs.replace(header, attributes=attributes), payload)


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch without records. Its header keeps the producer's last sequence."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    new = msgspec.structs.replace(header, attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return _assemble(new, b"")


def _with_timestamp_delta(payload: bytes, record: KeptRecord, shift: int) -> bytes:
    """Return the record with another timestamp delta."""
    _, begin = read_varint(payload, record.start)
    _, rest = read_varint(payload, begin + 1)
    delta = encode_varint(record.timestamp_delta + shift)
    body = b"".join((payload[begin : begin + 1], delta, payload[rest : record.stop]))
    return encode_varint(len(body)) + body


def _assemble(header: BatchHeader, records: bytes) -> bytes:
    """Return the batch of a header and uncompressed records, with a new length and CRC."""
    if header.compression is not Compression.NONE:
        records = compress(header.compression, records)
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    new = msgspec.structs.replace(header, batch_length=length, crc=0)
    head = bytearray(HEADER.pack(*msgspec.structs.astuple(new)))
    crc = crc32c(records, crc32c(bytes(head[CRC_COVERS_FROM:])))
    head[CRC_POSITION:CRC_COVERS_FROM] = crc.to_bytes(4, "big")
    return b"".join((head, records))
