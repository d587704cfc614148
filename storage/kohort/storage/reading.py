"""Reads the written part of a log: ranges to send, batches to replay, offsets for timestamps.

All functions take the segments and the log's tail as one thread saw them at one time; a writer may append
after the tail meanwhile. Each may raise OSError and StorageError.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, Record, iterate_records
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File
from kohort.storage.scan import iterate_batches, iterate_headers
from kohort.storage.segment import Segment

_BASE_OFFSET = attrgetter("base_offset")
_LENGTH_POSITION = 8


class Slice(msgspec.Struct, frozen=True, gc=False):
    """Bytes of one file to be sent: valid as long as the slice itself is held."""

    file_descriptor: int
    position: int
    size_bytes: int
    keep: File

    def read(self) -> bytes:
        """Return the bytes. Raises: OSError."""
        return self.keep.read_at(self.size_bytes, self.position)


class Tail(msgspec.Struct, frozen=True, gc=False):
    """Where the written log ends: replaced as one, so that its three numbers belong together."""

    written_offset: int
    segment: Segment
    size_bytes: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


Segments = tuple[Segment, ...]


def _up_to_tail(segments: Segments, tail: Tail, offset: int) -> Iterator[tuple[Segment, int]]:
    """Yield the segments from the one that may contain `offset`, with their readable bytes."""
    place = max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)
    for segment in segments[place:]:
        if segment.base_offset > tail.segment.base_offset:
            return
        yield segment, tail.size_bytes if segment is tail.segment else segment.size_bytes


def find_slice(
    segments: Segments, tail: Tail, offset: int, end_offset: int, max_bytes: int, *, whole: bool
) -> Slice:
    """Return the range from the batch that holds `offset` to `end_offset`, `max_bytes` or a segment's end.

    With `whole` the first batch is never cut.
    """
    written_offset, active, active_bytes = tail.written_offset, tail.segment, tail.size_bytes
    if offset >= end_offset or offset >= written_offset:
        return Slice(active.file.file_descriptor, active_bytes, 0, active.file)
    if offset >= active.base_offset:  # The usual case, without a loop.
        end = active_bytes if end_offset >= written_offset else active.position_of(end_offset, active_bytes)
        return _slice(active, offset, end, max_bytes, whole)
    for segment, size_bytes in _up_to_tail(segments, tail, offset):
        end = size_bytes if end_offset >= written_offset else segment.position_of(end_offset, size_bytes)
        found = _slice(segment, offset, end, max_bytes, whole)
        if found.size_bytes:
            return found
    return Slice(active.file.file_descriptor, active_bytes, 0, active.file)


def _slice(segment: Segment, offset: int, end: int, max_bytes: int, whole: bool) -> Slice:
    file = segment.file
    position = segment.position_of(offset, end)
    size = available = end - position
    if size > max_bytes:
        size = max_bytes
        if whole:
            length = int.from_bytes(file.read_at(4, position + _LENGTH_POSITION), "big")
            size = min(max(size, length + 12), available)
    return Slice(file.file_descriptor, position, size, file)


def read_batches(segments: Segments, tail: Tail, offset: int) -> Iterator[memoryview]:
    """Yield every batch from the one that contains `offset` to the tail."""
    for segment, size_bytes in _up_to_tail(segments, tail, offset):
        position = segment.position_of(offset, size_bytes)
        for _, header, batch in iterate_batches(segment.file, position, size_bytes):
            yield batch
            position += header.size_bytes
        if position != size_bytes:
            raise StorageError(f"no batch at position {position} of the segment at {segment.base_offset}")


def find_timestamp(
    segments: Segments, tail: Tail, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    """Return the first record from `start_offset` on that is not older than `timestamp_ms`."""
    for segment, size_bytes in _up_to_tail(segments, tail, start_offset):
        if segment.newest_timestamp()[0] < timestamp_ms:
            continue
        position = segment.position_of(max(segment.time_index.lookup(timestamp_ms), start_offset), size_bytes)
        for place, header in iterate_headers(segment.file, position, size_bytes):
            if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
                continue
            for record in _records(segment, place, header):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def find_max_timestamp(segments: Segments, tail: Tail, start_offset: int) -> TimestampOffset | None:
    """Return the first of the newest records."""
    newest = -1
    for segment, _ in _up_to_tail(segments, tail, start_offset):
        newest = max(newest, segment.newest_timestamp()[0])
    return find_timestamp(segments, tail, newest, start_offset) if newest >= 0 else None


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    batch = segment.file.read_at(header.size_bytes, position)
    try:
        yield from iterate_records(batch)
    except WireError as error:
        raise StorageError(f"the batch at offset {header.base_offset} is damaged: {error}") from error
