"""Batches made the log's own: a producer's with its offset and leader epoch, a leader's as they are."""

import struct
from collections.abc import Sequence

import msgspec

from kohort.protocol.records import BatchHeader, batch_crc
from kohort.storage.errors import StorageError
from kohort.storage.operating_system import Buffer
from kohort.storage.segment import StagedBatch

_PUT_OFFSET = struct.Struct(">q").pack_into
_PUT_EPOCH = struct.Struct(">i").pack_into
_PUT_CRC = struct.Struct(">I").pack_into
_LOG_APPEND_TIME_FLAG = 0x08


class Staged(msgspec.Struct, frozen=True, gc=False):
    """The batches that one flush of a log writes and syncs: nothing that is staged later."""

    batches: Sequence[StagedBatch]
    end_offset: int
    size_bytes: int


def staged_batch(
    data: Buffer, header: BatchHeader, offset: int, leader_epoch: int, append_time_ms: int | None
) -> StagedBatch:
    """Return the batch as it will be in the file, starting at `offset`."""
    copy = bytearray(data)
    _PUT_OFFSET(copy, 0, offset)
    _PUT_EPOCH(copy, 12, leader_epoch)
    max_timestamp = header.max_timestamp
    if append_time_ms is not None:
        _set_append_time(copy, append_time_ms)
        max_timestamp = append_time_ms
    return StagedBatch(copy, offset, offset + header.last_offset_delta, max_timestamp, header)


def replicated_batches(records: Buffer, headers: Sequence[BatchHeader], end_offset: int) -> list[StagedBatch]:
    """Return copies of a leader's batches, for a log that ends at `end_offset`.

    Raises: StorageError if one starts before that end.
    """
    batches = []
    position = 0
    for header in headers:
        if header.base_offset < end_offset:
            raise StorageError(
                f"a batch from {header.base_offset} on can't follow a log's end at {end_offset}"
            )
        data = bytes(records[position : position + header.size_bytes])
        position += header.size_bytes
        batches.append(
            StagedBatch(data, header.base_offset, header.last_offset, header.max_timestamp, header)
        )
        end_offset = header.next_offset
    return batches


def _set_append_time(data: bytearray, append_time_ms: int) -> None:
    """Set the broker's time as every record's timestamp; the CRC covers it, so it is computed again."""
    data[22] |= _LOG_APPEND_TIME_FLAG
    _PUT_OFFSET(data, 35, append_time_ms)
    _PUT_CRC(data, 17, batch_crc(data))
