"""Segment files of kohort's storage and of Apache Kafka, found and read without a broker.

A data folder holds folders `topic-N`, each with `%020d.log` files of record batches, named by the first
offset that they may hold. Each has files beside it: `.index` (relative offset int32, position int32: the
batch that begins at the position ends with the offset), `.timeindex` (timestamp int64, relative offset int32:
nothing up to the offset is newer), and Kafka's `.txnindex` (version int16, then producer id, first, last and
last stable offset int64: an aborted transaction). `.snapshot` files say which transactions were open at their
offset.
Source: org.apache.kafka.storage.internals.log.OffsetIndex, TimeIndex, AbortedTxn, ProducerStateManager.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from kohort.client import TopicPartition
from kohort.client.columns import decode_columns
from kohort.pipeline.errors import DamagedSegmentError
from kohort.pipeline.options import TopicChoice
from kohort.protocol.errors import WireError
from kohort.protocol.records import HEADER_BYTES, BatchHeader, batch_crc, read_header

LOG_START_OFFSETS = "log-start-offset-checkpoint"
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
ABORTED_ENTRY = struct.Struct(">hqqqq")
SNAPSHOT_PREFIX_BYTES, SNAPSHOT_ENTRY = 10, struct.Struct(">qhiqiqiq")

_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_LOG = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot")
_HEADER_CHUNK_BYTES = 64 << 10
_OLD_HEAD = struct.Struct(">8xiIb")
_OLD_LEAST_BYTES, _OLD_MOST_BYTES = 14, 16 << 20


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """A transaction that was aborted, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file with the files beside it."""

    path: Path
    base_offset: int

    @property
    def size_bytes(self) -> int:
        """The file's size now."""
        return self.path.stat().st_size

    def position_of(self, offset: int) -> int:
        """Return a position from which `offset` is found by going on from batch to batch."""
        entries = self._entries(".index", OFFSET_ENTRY)
        place = int(np.searchsorted(entries["offset"], offset - self.base_offset, side="right"))
        return int(entries["position"][place - 1]) if place else 0

    def position_of_time(self, timestamp_ms: int) -> int:
        """Return a position before which no record is as new as `timestamp_ms`."""
        entries = self._entries(".timeindex", TIME_ENTRY)
        place = int(np.searchsorted(entries["timestamp"], timestamp_ms, side="left"))
        return self.position_of(self.base_offset + int(entries["offset"][place - 1])) if place else 0

    def aborted(self) -> list[AbortedRange]:
        """Return the aborted transactions whose markers are in this segment."""
        content = _read(self.path.with_suffix(".txnindex"))
        whole = len(content) - len(content) % ABORTED_ENTRY.size
        entries = ABORTED_ENTRY.iter_unpack(content[:whole])
        return [AbortedRange(producer_id, first, last) for _, producer_id, first, last, _ in entries]

    def headers(self, position: int) -> Iterator[tuple[BatchHeader, int]]:
        """Yield the header and the position of each whole batch from `position` on.

        A batch that is cut short or invalid ends it: a crash may leave both after the last batch.
        """
        with self.path.open("rb") as file:
            size, begin, chunk = self.size_bytes, 0, b""
            while position + HEADER_BYTES <= size:
                if position < begin or position + HEADER_BYTES > begin + len(chunk):
                    begin = position
                    file.seek(begin)
                    chunk = file.read(_HEADER_CHUNK_BYTES)
                try:
                    header = read_header(chunk, position - begin)
                except WireError:
                    return
                if position + header.size_bytes > size:
                    return
                yield header, position
                position += header.size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes at `position`. Raises: OSError."""
        with self.path.open("rb") as file:
            file.seek(position)
            return file.read(size_bytes)

    def end_offset(self) -> int:
        """Return the offset after the last whole batch."""
        end = self.base_offset
        entries = self._entries(".index", OFFSET_ENTRY)
        position = int(entries["position"][-1]) if len(entries) else 0
        for header, place in self.headers(position):
            end, position = header.next_offset, place + header.size_bytes
        self.check_format(position)
        return end

    def check_format(self, position: int) -> None:
        """Check whether a message in the format before Kafka 0.11 is at a position.

        All other bytes may be torn.
        A message is offset int64, length int32, CRC-32 int32 of what follows, magic int8.

        Raises: DamagedSegmentError.
        """
        head = self.read(position, _OLD_HEAD.size)
        if len(head) < _OLD_HEAD.size:
            return
        length, crc, magic = _OLD_HEAD.unpack(head)
        if magic not in (0, 1) or not _OLD_LEAST_BYTES <= length <= _OLD_MOST_BYTES:
            return
        covered = self.read(position + _OLD_HEAD.size - 1, length - 4)
        if len(covered) == length - 4 and zlib.crc32(covered) == crc:
            raise DamagedSegmentError(
                f"{self.path}: what lies at {position} is in the format {magic}, of before Kafka 0.11,"
                " which only Kafka up to 3 reads"
            )

    def _entries(self, suffix: str, kind: np.dtype[np.void]) -> np.ndarray:
        """Return the entries of an index without the zeros that a running Kafka broker keeps after them."""
        content = _read(self.path.with_suffix(suffix))
        entries = np.frombuffer(content, kind, len(content) // kind.itemsize)
        fields = [entries[name] != 0 for name in kind.names or ()]
        told = np.flatnonzero(np.logical_or.reduce(fields))
        return entries[: told[-1] + 1 if len(told) else 0]


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The segments of one partition in order, and the start offset of its log."""

    partition: TopicPartition
    segments: tuple[Segment, ...]
    start_offset: int

    def end_offset(self) -> int:
        """Return the offset after the last whole batch."""
        return self.segments[-1].end_offset()

    def aborted(self) -> list[AbortedRange]:
        """Return all aborted transactions, from the markers in all segments."""
        return [aborted for each in self.segments for aborted in each.aborted()]

    def last_stable_offset(self, end: int) -> int:
        """Return the first offset of the first open transaction, `end` when there is none."""
        taken, opened = self._snapshot()
        for segment, behind in zip_longest(self.segments, self.segments[1:]):
            if behind is not None and behind.base_offset <= taken:
                continue
            for header, _ in segment.headers(segment.position_of(taken)):
                if header.last_offset < taken or not header.is_transactional:
                    continue
                if header.is_control:
                    opened.pop(header.producer_id, None)
                else:
                    opened.setdefault(header.producer_id, header.base_offset)
        return min([end, *opened.values()])

    def _snapshot(self) -> tuple[int, dict[int, int]]:
        """Return the offset of the newest snapshot, and its open transactions."""
        folder = self.segments[-1].path.parent
        names = sorted(
            (match[1], each) for each in folder.iterdir() if (match := _SNAPSHOT.fullmatch(each.name))
        )
        if not names:
            return self.start_offset, {}
        entries = _read(names[-1][1])[SNAPSHOT_PREFIX_BYTES:]
        whole = len(entries) - len(entries) % SNAPSHOT_ENTRY.size
        opened = {each[0]: each[7] for each in SNAPSHOT_ENTRY.iter_unpack(entries[:whole]) if each[7] >= 0}
        return int(names[-1][0]), opened

    def offset_of_time(self, timestamp_ms: int, end: int) -> int:
        """Return the offset of the first record as new as `timestamp_ms`, or `end`. Raises: WireError."""
        for segment in self.segments:
            for header, position in segment.headers(segment.position_of_time(timestamp_ms)):
                if header.max_timestamp < timestamp_ms or header.last_offset < self.start_offset:
                    continue
                batch = segment.read(position, header.size_bytes)
                for columns in decode_columns(batch, fetch_offset=self.start_offset, check_crcs=False):
                    new = np.flatnonzero(columns.timestamps_ms >= timestamp_ms)
                    if len(new):
                        return min(int(columns.offsets[new[0]]), end)
        return end


def find_partitions(folder: Path, topics: TopicChoice) -> list[PartitionFiles]:
    """Return the chosen topics' partitions that a data folder holds. Raises: OSError."""
    starts = _checkpoint(folder / LOG_START_OFFSETS)
    found = []
    for each in folder.iterdir():
        name = _FOLDER.fullmatch(each.name)
        if name is None or name["topic"] not in topics or not each.is_dir():
            continue
        segments = sorted(
            (Segment(log, int(match[1])) for log in each.iterdir() if (match := _LOG.fullmatch(log.name))),
            key=lambda segment: segment.base_offset,
        )
        if segments:
            partition = TopicPartition(name["topic"], int(name["partition"]))
            start = max(starts.get(partition, 0), segments[0].base_offset)
            found.append(PartitionFiles(partition, tuple(segments), start))
    return sorted(found, key=lambda files: files.partition)


def is_torn(records: memoryview) -> bool:
    """Whether the end of a log, a damaged batch first, is the rest of a write that a crash interrupted.

    It is not when a sound batch follows: then the damage is in the middle, and recovery would not mend it.
    """
    try:
        following = records[read_header(records).size_bytes :]
        header = read_header(following)
    except WireError:
        return True
    batch = following[: header.size_bytes]
    return len(batch) < header.size_bytes or batch_crc(batch) != header.crc


def _checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file: `0`, how many, then `topic partition offset` a line."""
    rows = [line.split() for line in _read(path).decode(errors="replace").splitlines()[2:]]
    return {
        TopicPartition(row[0], int(row[1])): int(row[2])
        for row in rows
        if len(row) == 3 and row[1].isdecimal() and row[2].isdecimal()
    }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
