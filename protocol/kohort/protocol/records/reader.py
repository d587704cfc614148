"""Iterates over the batches of a buffer, and over the records of a batch."""

from collections.abc import Iterator

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from kohort.protocol.records.decoding import Headers, RecordFactory, RecordLists
from kohort.protocol.records.header import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
    read_header,
)

_AT_A_TIME_MAX = 64
_AT_A_TIME_GROWTH = 4  # It starts with one record, for callers that need only the first.


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record; `timestamp` is in milliseconds, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_batches(buffer: Buffer, *, check_crcs: bool = False) -> Iterator[memoryview]:
    """Yield each whole batch of `buffer`. The last batch of a fetch may be cut short: it is left out.

    Raises: WireError for anything but batches v2, and with `check_crcs` for a wrong CRC.
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
    """Raise WireError unless `batch` is one whole batch with a correct CRC."""
    header = read_header(batch)
    if len(batch) != header.size_bytes:
        raise WireError(f"the batch at offset {header.base_offset} is not whole")
    if batch_crc(batch) != header.crc:
        raise WireError(f"the batch at offset {header.base_offset} has a wrong CRC")


def iterate_records(
    batch: Buffer, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the records of the first batch in `batch`, without a check of its CRC.

    Raises: WireError if the batch is cut short, damaged, or decompresses to more than allowed.
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
    yield from iterate_payload(data, header)


def iterate_payload(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield each record. Raises: WireError, after the records before the damage."""
    lists = RecordLists(_record if not header.has_log_append_time else _at(header.max_timestamp))
    records: list[Record] = []
    lists.begin(header, data, records)
    left, at_a_time = header.record_count, 1
    while left > 0:
        try:
            lists.read_stated_offsets(header.base_offset, min(left, at_a_time))
        except (WireError, IndexError) as error:
            yield from records
            if isinstance(error, WireError):
                raise
            raise WireError(f"the records of the batch at {header.base_offset} end early") from None
        yield from records
        left -= len(records)
        records.clear()
        at_a_time = min(at_a_time * _AT_A_TIME_GROWTH, _AT_A_TIME_MAX)
    lists.end()


def _record(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers, _leader_epoch: int
) -> Record:
    return Record(offset, timestamp, key, value, headers)


def _at(append_timestamp: int) -> RecordFactory[Record]:
    """Return the factory for records of a batch with LogAppendTime."""

    def make(
        offset: int, _: int, key: bytes | None, value: bytes | None, headers: Headers, _leader_epoch: int
    ) -> Record:
        return Record(offset, append_timestamp, key, value, headers)

    return make
