"""When a record was written, told from the header of its batch alone."""

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, read_header
from kohort.protocol.records.header import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from kohort.storage import PartitionLog, StorageError


def record_timestamp_ms(log: PartitionLog, offset: int, end_offset: int) -> int | None:
    """Return the time of the first record at `offset` or behind it, None where that can't be told.

    Reads 61 bytes; a batch is neither decompressed nor decoded. So within a batch the time is interpolated
    between its first and its newest: wrong by less than the time that the producer gathered it. Blocks.
    """
    try:
        found = log.read(
            max(offset, log.log_start_offset), HEADER_BYTES, end_offset, at_least_one_batch=False
        )
        if found.size_bytes < HEADER_BYTES:
            return None
        header = read_header(found.read())
    except (StorageError, WireError, OSError):  # A log that was closed or deleted meanwhile.
        return None
    return _time_within(header, offset)


def _time_within(header: BatchHeader, offset: int) -> int | None:
    if header.base_timestamp < 0:
        return None  # A producer that sends no timestamps.
    if header.attributes & LOG_APPEND_TIME_FLAG or not header.last_offset_delta:
        return header.max_timestamp
    place = min(max(offset - header.base_offset, 0), header.last_offset_delta)
    span_ms = header.max_timestamp - header.base_timestamp
    return header.base_timestamp + span_ms * place // header.last_offset_delta
