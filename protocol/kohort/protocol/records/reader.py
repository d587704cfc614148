"""Batches out of a buffer, and records out of a batch, lazily.

A record: length varint, attributes int8, timestamp delta varlong, offset delta varint, key length
varint and key, value length varint and value (length -1 is null), header count varint, then per
header a key (UTF-8, never null) and a value. Source: org.apache.kafka.common.record.DefaultRecord.
"""

from collections.abc import Iterator

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from kohort.protocol.records.header import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
    read_header,
)
from kohort.protocol.records.varint import read_varint, read_varint_rest

Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record as a consumer sees it; `timestamp` in milliseconds, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_batches(buffer: Buffer, *, check_crcs: bool = False) -> Iterator[memoryview]:
    """Yield each whole batch of `buffer`; what is cut short at its end, as fetches are, is left out.

    Raises: WireError for what is no batch v2, or with `check_crcs` for one that is damaged.
    """
    view = memoryview(buffer)
    position = 0
    while position + HEADER_BYTES <= len(view):
        stop = position + read_header(view, position).size_bytes
        if stop > len(view):
            break
        batch = view[position:stop]
        if check_crcs:
            verify_crc(batch)
        yield batch
        position = stop


def verify_crc(batch: Buffer) -> None:
    """Raise WireError unless `batch`, one whole batch, carries the CRC of its bytes."""
    header = read_header(batch)
    if len(batch) != header.size_bytes:
        raise WireError(f"the batch at offset {header.base_offset} is not whole")
    if batch_crc(batch) != header.crc:
        raise WireError(f"the batch at offset {header.base_offset} does not have the CRC that it says")


def iterate_records(
    batch: Buffer, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the records of the one batch that `batch` begins with; its CRC is not looked at.

    Raises: WireError where the batch is cut short, damaged, or decompresses to more than allowed.
    """
    header = read_header(batch)
    if header.size_bytes > len(batch):
        raise WireError(f"a batch of {header.size_bytes} bytes is cut short at {len(batch)}")
    payload = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    compression = header.compression
    if compression is Compression.NONE:
        data = bytes(payload)
    else:
        data = decompress(compression, payload, max_decompressed_bytes)
    try:
        yield from iterate_payload(data, header)
    except IndexError:
        raise WireError(f"the records of the batch at {header.base_offset} end early") from None


def iterate_payload(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield each record. One byte variable length integers, the usual ones, are read in place.

    Raises: WireError, and IndexError where the data ends.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_timestamp = header.max_timestamp if header.has_log_append_time else None
    position, end = 0, len(data)
    for _ in range(header.record_count):
        byte = data[position]
        position += 1
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(data, position, byte)
        stop = position + size
        if size < 0 or stop > end:
            raise WireError(f"a record of {size} bytes where {end - position} are left")
        timestamp_delta, position = read_varint(data, position + 1)  # The attributes before it are unused.
        offset_delta, position = read_varint(data, position)
        byte = data[position]
        position += 1
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(data, position, byte)
        key: bytes | None = None
        if size >= 0:
            key = data[position : position + size]
            position += size
        byte = data[position]
        position += 1
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(data, position, byte)
        value: bytes | None = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers: Headers = ()
        if data[position] == 0:
            position += 1
        else:
            headers, position = read_headers(data, position)
        if position != stop:
            raise WireError(f"a record is {position - stop} bytes longer than it says")
        timestamp = base_timestamp + timestamp_delta if append_timestamp is None else append_timestamp
        yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    if position != end:
        raise WireError(f"{end - position} bytes are left behind the last record of a batch")


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """Return a record's headers and the position behind them. Raises: WireError, IndexError."""
    count, position = read_varint(data, position)
    if count < 0 or count > len(data) - position:
        raise WireError(f"a record with {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise WireError("a record header without a key")
        key = data[position : position + size].decode("utf-8", "replace")  # As Java's String does it.
        position += size
        size, position = read_varint(data, position)
        value: bytes | None = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers.append((key, value))
    return tuple(headers), position
