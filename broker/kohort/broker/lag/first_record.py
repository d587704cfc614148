"""Finds the first record that a consumer gets from an offset on, from batch headers only.

A group that has read everything may be before data that no consumer receives: transaction markers, records of
aborted transactions, batches that compaction has emptied, and deleted records.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, read_header
from kohort.protocol.records.header import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from kohort.storage import PartitionLog, StorageError

BATCHES_MAX = 2_000
"""The most batches that one scan of a partition skips. The next scan continues there."""
BATCHES_TOGETHER_MAX = 20_000
"""The same for all partitions of one call, so that it does not occupy a thread for long."""
Work = tuple[PartitionLog, int, int]
"""A log, the offset to begin with, and the end."""


class FirstRecord(NamedTuple):
    """The first record for consumers from an offset on. No such record is before `offset`.

    If it is not `is_found`, the scan ended at `offset`. `timestamp_ms` is None if the time is not known.
    """

    offset: int
    is_found: bool
    timestamp_ms: int | None


def first_records(work: Iterable[Work | None]) -> list[FirstRecord | None]:
    """Return the first record for each item, None for None. Blocks."""
    left = BATCHES_TOGETHER_MAX
    found: list[FirstRecord | None] = []
    for each in work:
        if each is None:
            found.append(None)
            continue
        first, batches = _scan(*each, min(BATCHES_MAX, left))
        left = max(left - batches, 1)  # Every partition is scanned at least a little.
        found.append(first)
    return found


def _scan(log: PartitionLog, offset: int, end_offset: int, batches_max: int) -> tuple[FirstRecord, int]:
    """Return the first record from `offset` on, before `end_offset`, and the number of scanned batches.

    It reads the 61 bytes of each batch header, without decoding records. Inside a batch the timestamp is
    interpolated between the first and the newest one, so its error is less than the producer's linger time.
    """
    position, looked_at = max(offset, log.log_start_offset), 0
    try:
        while looked_at < batches_max:
            header = _header_at(log, position, end_offset)
            looked_at += 1
            if header is None:
                return FirstRecord(max(position, end_offset), is_found=False, timestamp_ms=None), looked_at
            position = max(position, header.base_offset)
            if _is_for_consumers(log, header):
                first = FirstRecord(position, is_found=True, timestamp_ms=_time_within(header, position))
                return first, looked_at
            position = header.next_offset
    except (StorageError, WireError, OSError):  # The log was closed or deleted meanwhile.
        pass
    return FirstRecord(position, is_found=False, timestamp_ms=None), looked_at


def _header_at(log: PartitionLog, offset: int, end_offset: int) -> BatchHeader | None:
    """Return the header of the batch with `offset`, or of the next batch, or None."""
    found = log.read(offset, HEADER_BYTES, end_offset, at_least_one_batch=False)
    if found.size_bytes < HEADER_BYTES:
        return None
    header = read_header(found.read())
    return header if header.base_offset < end_offset else None


def _is_for_consumers(log: PartitionLog, header: BatchHeader) -> bool:
    """Return whether a batch has records that do not belong to an aborted transaction."""
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
        return None  # The producer sends no timestamps.
    if header.attributes & LOG_APPEND_TIME_FLAG or header.has_delete_horizon or not header.last_offset_delta:
        return header.max_timestamp
    if header.base_timestamp < 0:
        return None
    position = min(max(offset - header.base_offset, 0), header.last_offset_delta)
    span_ms = header.max_timestamp - header.base_timestamp
    return header.base_timestamp + span_ms * position // header.last_offset_delta
