"""Checks one segment from its first byte to its last: its content and its problems. No Spark.

The checks: batches follow each other without a hole in the bytes, the CRC of each batch, order and gaps of
offsets, with `deep` every record, and whether both indexes point to the right places. The job reports what
needs several segments (a gap between them, a batch that a producer's retry has written twice).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np

from kohort.pipeline.segment_files import OFFSET_ENTRY, TIME_ENTRY, Segment
from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    batch_crc,
    iterate_records,
    read_header,
)

READ_BYTES = 8 << 20
PROBLEMS_MAX = 1_000
"""For one segment: a problem at every place need not be reported a million times."""


class Kind(Enum):
    """The kinds of problems."""

    UNREADABLE = "unreadable"
    """The bytes are no batch, or the file is gone: the rest of the segment cannot be checked."""
    TORN = "torn"
    """The last batch of a log is cut short: a crash leaves that, and the next start mends it."""
    CRC = "crc"
    RECORDS = "records"
    """The records do not match the header of the batch, or cannot be decoded."""
    ORDER = "order"
    """Offsets go back or repeat: a batch begins before the end of the previous one."""
    GAP = "gap"
    """Offsets are missing where nothing may have removed them."""
    DUPLICATE = "duplicate"
    """A batch of a producer is there twice, under different offsets."""
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, its byte position in the segment or in its index, and its offset."""

    kind: Kind
    position: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ProducerBatch:
    """A batch of an idempotent producer, by what makes it one of a kind."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    offset: int


@dataclass(slots=True)
class Findings:
    """The content of a segment; `first_offset` and `next_offset` are -1 where it has no batch."""

    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    first_offset: int = -1
    next_offset: int = -1
    max_timestamp_ms: int = -1
    problems: list[Problem] = field(default_factory=list)
    producer_batches: list[ProducerBatch] = field(default_factory=list)

    def add(self, kind: Kind, position: int, offset: int, text: str) -> None:
        """Add a problem, unless there are too many already."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(kind, position, offset, text))


@dataclass(slots=True)
class _Places:
    """Start and end offset of each batch, and the newest timestamp up to its end: for the index checks."""

    positions: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    newest_ms: list[int] = field(default_factory=list)

    def add(self, position: int, header: BatchHeader) -> None:
        self.positions.append(position)
        self.last_offsets.append(header.last_offset)
        newest = self.newest_ms[-1] if self.newest_ms else -1
        self.newest_ms.append(max(newest, header.max_timestamp))


def walk(segment: Segment, *, is_last: bool, may_have_gaps: bool, deep: bool) -> Findings:
    """Return the findings of one segment. Raises: OSError where it cannot be read at all."""
    found, places = Findings(), _Places()
    for position, batch in _batches(segment, found, is_last=is_last):
        header = read_header(batch)
        _look_at(found, position, header, batch, deep=deep)
        _look_at_order(found, position, header, segment, may_have_gaps=may_have_gaps)
        places.add(position, header)
        _count(found, header)
    if places.positions:
        _look_at_index(found, segment, places)
        _look_at_time_index(found, segment, places)
    return found


def _batches(segment: Segment, found: Findings, *, is_last: bool) -> Iterator[tuple[int, memoryview]]:
    """Yield each whole batch with its position, some megabytes of the file at a time."""
    position, end = 0, segment.size_bytes
    with segment.path.open("rb", buffering=0) as file:
        while position < end:
            file.seek(position)
            content = memoryview(file.read(READ_BYTES))
            needed = _first_bytes(content)
            if needed > len(content) and position + needed <= end:  # A batch larger than one read.
                file.seek(position)
                content = memoryview(file.read(needed))
            at = 0
            while (size := _first_bytes(content[at:])) and at + size <= len(content):
                yield position + at, content[at : at + size]
                at += size
            if not at:
                _tell_the_end(found, position, end - position, needed, is_last=is_last)
                return
            position += at
            found.size_bytes = position


def _first_bytes(content: memoryview) -> int:
    """Return the size of the batch that begins there, 0 where no batch begins."""
    try:
        return read_header(content).size_bytes
    except WireError:
        return 0


def _tell_the_end(
    found: Findings, position: int, left_bytes: int, needed_bytes: int, *, is_last: bool
) -> None:
    """Say why the walk ends before the file does."""
    offset = found.next_offset
    is_cut = left_bytes < HEADER_BYTES or needed_bytes > left_bytes
    text = f"{left_bytes} bytes are no whole batch"
    if is_cut and is_last:
        found.add(Kind.TORN, position, offset, f"{text}: a crash leaves that, and the next start mends it")
    else:
        found.add(Kind.UNREADABLE, position, offset, f"{text}, and what is behind them cannot be looked at")


def _look_at(found: Findings, position: int, header: BatchHeader, batch: memoryview, *, deep: bool) -> None:
    offset = header.base_offset
    crc = batch_crc(batch)
    if crc != header.crc:
        found.add(Kind.CRC, position, offset, f"the CRC is {crc:08x}, and the header says {header.crc:08x}")
        return
    span = header.last_offset_delta + 1
    if header.record_count > span or header.last_offset_delta < 0:
        found.add(Kind.RECORDS, position, offset, f"{header.record_count} records over {span} offsets")
    if deep:
        _look_at_records(found, position, header, batch)


def _look_at_records(found: Findings, position: int, header: BatchHeader, batch: memoryview) -> None:
    try:
        offsets = [each.offset for each in iterate_records(batch)]
    except WireError as error:
        found.add(Kind.RECORDS, position, header.base_offset, str(error))
        return
    if len(offsets) != header.record_count:
        text = f"{len(offsets)} records, and the header says {header.record_count}"
        found.add(Kind.RECORDS, position, header.base_offset, text)
    if offsets != sorted(set(offsets)) or (offsets and offsets[-1] > header.last_offset):
        found.add(Kind.ORDER, position, header.base_offset, "the records' offsets are not in order")


def _look_at_order(
    found: Findings, position: int, header: BatchHeader, segment: Segment, *, may_have_gaps: bool
) -> None:
    offset = header.base_offset
    if not found.batches:
        if offset < segment.base_offset:
            found.add(Kind.ORDER, position, offset, f"the file's name says {segment.base_offset}")
        return
    if offset < found.next_offset:
        text = f"the batch before it ends at {found.next_offset}: offsets are there twice"
        found.add(Kind.ORDER, position, offset, text)
    elif offset > found.next_offset and not may_have_gaps:
        text = f"offsets {found.next_offset} to {offset - 1} are missing"
        found.add(Kind.GAP, position, found.next_offset, text)


def _count(found: Findings, header: BatchHeader) -> None:
    if not found.batches:
        found.first_offset = header.base_offset
    found.batches += 1
    found.records += header.record_count
    found.next_offset = max(found.next_offset, header.next_offset)
    found.max_timestamp_ms = max(found.max_timestamp_ms, header.max_timestamp)
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence != NO_SEQUENCE and not header.is_control:
        found.producer_batches.append(
            ProducerBatch(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
            )
        )


def _look_at_index(found: Findings, segment: Segment, places: _Places) -> None:
    """An entry (offset, position) is right if a batch begins there and no batch before it has the offset."""
    starts = {position: number for number, position in enumerate(places.positions)}
    before = -1
    for number, entry in enumerate(_entries(segment.path.with_suffix(".index"), OFFSET_ENTRY)):
        offset, position = segment.base_offset + int(entry["offset"]), int(entry["position"])
        at = number * OFFSET_ENTRY.itemsize
        place = starts.get(position)
        if offset <= before:
            found.add(Kind.INDEX, at, offset, f".index: offset {offset} comes after {before}")
        elif place is None:
            found.add(Kind.INDEX, at, offset, f".index: no batch begins at {position}")
        elif place and places.last_offsets[place - 1] >= offset:
            found.add(Kind.INDEX, at, offset, f".index: offset {offset} lies before position {position}")
        elif places.last_offsets[-1] < offset:
            found.add(Kind.INDEX, at, offset, f".index: offset {offset} is not in the segment")
        before = max(before, offset)


def _look_at_time_index(found: Findings, segment: Segment, places: _Places) -> None:
    """An entry (time, offset) serves a look-up if nothing up to the offset is newer."""
    last_offsets = np.array(places.last_offsets)
    before_ms, before = -1, -1
    for number, entry in enumerate(_entries(segment.path.with_suffix(".timeindex"), TIME_ENTRY)):
        offset, timestamp_ms = segment.base_offset + int(entry["offset"]), int(entry["timestamp"])
        at = number * TIME_ENTRY.itemsize
        upto = int(np.searchsorted(last_offsets, offset, side="right")) - 1
        if timestamp_ms < before_ms or offset < before:
            found.add(Kind.INDEX, at, offset, f".timeindex: {timestamp_ms} comes after {before_ms}")
        elif upto >= 0 and places.newest_ms[upto] > timestamp_ms:
            text = f".timeindex: a record up to offset {offset} is newer than {timestamp_ms}"
            found.add(Kind.INDEX, at, offset, text)
        elif places.last_offsets[-1] < offset:
            found.add(Kind.INDEX, at, offset, f".timeindex: offset {offset} is not in the segment")
        before_ms, before = max(before_ms, timestamp_ms), max(before, offset)


def _entries(path: Path, kind: np.dtype[np.void]) -> np.ndarray:
    """Return the entries of an index without the zeros after them; none where there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    entries = np.frombuffer(content, kind, len(content) // kind.itemsize)
    told = np.flatnonzero(np.logical_or.reduce([entries[name] != 0 for name in kind.names or ()]))
    return entries[: told[-1] + 1 if len(told) else 0]
