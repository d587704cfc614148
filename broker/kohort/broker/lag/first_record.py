"""The first record that a consumer gets from an offset on, told from the headers of batches alone.

A group that has read everything may stand before what no consumer is ever given: the marker of a transaction,
records of an aborted one, batches that compaction has emptied, records that are deleted.
"""

from typing import NamedTuple

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, read_header
from kohort.protocol.records.header import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from kohort.storage import PartitionLog, StorageError

BATCHES_MAX = 2_000
"""Passed over in one look; the next look goes on from there."""


class FirstRecord(NamedTuple):
    """The first record from an offset on; what lies before `offset` holds no record that anybody is given.

    Where it is not `is_found`, none is there up to `offset`. Without a timestamp the time can't be told.
    """

    offset: int
    is_found: bool
    timestamp_ms: int | None


def first_record(log: PartitionLog, offset: int, end_offset: int) -> FirstRecord:
    """Return the first record from `offset` on that a reader of committed data gets before `end_offset`.

    Reads 61 bytes a batch; a batch is neither decompressed nor decoded. So within a batch the time is
    interpolated between its first and its newest: wrong by less than the time that the producer gathered it.
    Blocks.
    """
    place = max(offset, log.log_start_offset)
    try:
        for _ in range(BATCHES_MAX):
            header = _header_at(log, place, end_offset)
            if header is None:
                return FirstRecord(max(place, end_offset), is_found=False, timestamp_ms=None)
            place = max(place, header.base_offset)
            if _is_for_consumers(log, header):
                return FirstRecord(place, is_found=True, timestamp_ms=_time_within(header, place))
            place = header.next_offset
    except (StorageError, WireError, OSError):  # A log that was closed or deleted meanwhile.
        pass
    return FirstRecord(place, is_found=False, timestamp_ms=None)


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
