"""The first record that a consumer gets from an offset on, told from the headers of batches alone.

A group that has read everything may stand before what no consumer is ever given: the marker of a transaction,
records of an aborted one, batches that compaction has emptied, records that are deleted.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, read_header
from kohort.protocol.records.header import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from kohort.storage import PartitionLog, StorageError

BATCHES_MAX = 2_000
"""Passed over in one look at a partition; the next look goes on from there."""
BATCHES_TOGETHER_MAX = 20_000
"""In all partitions of one look, so that nobody has a thread read for long."""
Work = tuple[PartitionLog, int, int]
"""A log, the offset to begin with, and the end."""


class FirstRecord(NamedTuple):
    """The first record from an offset on; what lies before `offset` holds no record that anybody is given.

    Where it is not `is_found`, none is there up to `offset`. Without a timestamp the time can't be told.
    """

    offset: int
    is_found: bool
    timestamp_ms: int | None


def first_records(work: Iterable[Work | None]) -> list[FirstRecord | None]:
    """Return the first record of each, None for None. Blocks."""
    left = BATCHES_TOGETHER_MAX
    found: list[FirstRecord | None] = []
    for each in work:
        if each is None:
            found.append(None)
            continue
        first, batches = _look(*each, min(BATCHES_MAX, left))
        left = max(left - batches, 1)  # Each is looked at a little.
        found.append(first)
    return found


def first_record(log: PartitionLog, offset: int, end_offset: int) -> FirstRecord:
    """Return the first record from `offset` on that a reader of committed data gets before `end_offset`.

    Reads 61 bytes a batch; a batch is neither decompressed nor decoded. So within a batch the time is
    interpolated between its first and its newest: wrong by less than the time that the producer gathered it.
    Blocks.
    """
    return _look(log, offset, end_offset, BATCHES_MAX)[0]


def _look(log: PartitionLog, offset: int, end_offset: int, batches_max: int) -> tuple[FirstRecord, int]:
    """Return the first record, and how many batches were looked at."""
    place, looked_at = max(offset, log.log_start_offset), 0
    try:
        while looked_at < batches_max:
            header = _header_at(log, place, end_offset)
            looked_at += 1
            if header is None:
                return FirstRecord(max(place, end_offset), is_found=False, timestamp_ms=None), looked_at
            place = max(place, header.base_offset)
            if _is_for_consumers(log, header):
                first = FirstRecord(place, is_found=True, timestamp_ms=_time_within(header, place))
                return first, looked_at
            place = header.next_offset
    except (StorageError, WireError, OSError):  # A log that was closed or deleted meanwhile.
        pass
    return FirstRecord(place, is_found=False, timestamp_ms=None), looked_at


def _header_at(log: PartitionLog, offset: int, end_offset: int) -> BatchHeader | None:
    """Return the header of the batch that holds `offset`, or of the next one; None where there is none."""
    found = log.read(offset, HEADER_BYTES, end_offset, at_least_one_batch=False)
    if found.size_bytes < HEADER_BYTES:
        return None
    header = read_header(found.read())
    return header if header.base_offset < end_offset else None


def _is_for_consumers(log: PartitionLog, header: BatchHeader) -> bool:
    """Return whether a batch has records, and these are no transaction's that was aborted."""
    if header.is_control or not header.record_count:
        return False
    if not header.is_transactional:
        return True
    return not any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in log.aborted_from(header.base_offset, header.next_offset)
    )


def _time_within(header: BatchHeader, offset: int) -> int | None:
    if header.max_timestamp < 0:
        return None  # A producer that sends no timestamps.
    if header.attributes & LOG_APPEND_TIME_FLAG or header.has_delete_horizon or not header.last_offset_delta:
        return header.max_timestamp
    if header.base_timestamp < 0:
        return None
    place = min(max(offset - header.base_offset, 0), header.last_offset_delta)
    span_ms = header.max_timestamp - header.base_timestamp
    return header.base_timestamp + span_ms * place // header.last_offset_delta
