"""One segment of a log: `%020d.log` and its two indexes, named by the first offset they may hold.

A third, of aborted transactions, is its own matter (`transaction_index`); here its file only has a name.

Threads: one writes (`append`, `finish`), any may look up positions and read below `size_bytes`, which
grows only after the bytes are in the file. Source: org.apache.kafka.storage.internals.log.LogSegment.
"""

import errno
import os
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.records import NO_TIMESTAMP, BatchHeader
from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File, FileSystem
from kohort.storage.index import OffsetIndex, TimeIndex
from kohort.storage.open_files import OpenSegments
from kohort.storage.operating_system import Buffer
from kohort.storage.prefix import Prefix, scan_prefix
from kohort.storage.recovery_point import RecoveryPoint
from kohort.storage.scan import MAX_RELATIVE_OFFSET, iterate_headers

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"

SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)
"""The suffixes of all files of a segment; the log is last, because it decides whether the segment exists."""

_MAX_POSITION = 2**31 - 1  # The offset index holds positions in 32 bits.
_UNKNOWN = 0
_RECENT_BATCHES_MAX = 1024
_REBUILT_INTERVAL_BYTES = 4096


class StagedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch with assigned offsets that is not yet in the file."""

    data: Buffer
    base_offset: int
    last_offset: int
    max_timestamp: int
    header: BatchHeader


def file_name(base_offset: int, suffix: str) -> str:
    """Return a segment file's name: twenty digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` up to the next segment's. The file is opened when first needed."""

    __slots__ = (
        "_are_indexes_written",
        "_bytes_since_index",
        "_directory",
        "_ending",
        "_file",
        "_file_system",
        "_is_dirty",
        "_is_retired",
        "_is_sealed",
        "_lost",
        "_next_index_bytes",
        "_open_segments",
        "_recent",
        "_rolls_after_ms",
        "_rolls_by",
        "base_offset",
        "first_timestamp",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "size_bytes",
        "time_index",
        "was_used",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        ending: str = "",
        open_segments: OpenSegments | None = None,
    ) -> None:
        self._open_segments = open_segments
        self.was_used = False  # Since the last check of which files may be closed.
        self._is_dirty = False  # Something was written that may not be on the disk.
        self._is_sealed = False
        self._lost: OSError | None = None  # The error of a sync without a waiter.
        self._file_system = file_system
        self._directory = directory
        self._ending = ending  # Of a segment in the making: its files' names end with it.
        self._file: File | None = None
        self._is_retired = False
        self.base_offset = base_offset
        self.size_bytes = 0
        self.index = OffsetIndex(file_system, self._path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(file_system, self._path(TIME_INDEX_SUFFIX), base_offset)
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._are_indexes_written = False
        self._next_index_bytes = _UNKNOWN  # The size of the larger index with one entry more.
        self._recent: list[tuple[int, int]] = []  # Last offset and position of the newest batches.
        self._rolls_by: LogConfig | None = None  # By which settings it grows as old as this:
        self._rolls_after_ms = 0

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._ending}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files, the indexes before the log; an index may be missing."""
        return tuple(map(self._path, SUFFIXES))

    @property
    def file(self) -> File:
        """The log file, open. Raises: OSError."""
        self.was_used = True
        file = self._file
        if file is None:
            file = self._file_system.open(self._path(LOG_SUFFIX))
            if self._is_retired:  # Another segment's file may have that name now.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(LOG_SUFFIX))
            self._hold(file)
        return file

    def _hold(self, file: File) -> None:
        self._file = file
        if self._open_segments is not None:
            self._open_segments.opened(self)

    def let_go(self) -> None:
        """Close the files until they are needed again; a file that a reader or a writer holds stays open.

        They are synced before: the system may forget the error of a file that nobody has open.
        """
        if self._is_dirty:
            try:
                self.sync()
            except OSError as error:
                self._lost = error
        self._file = None
        self.index.let_go(forget=self._is_sealed)
        self.time_index.let_go(forget=self._is_sealed)

    def sync(self) -> None:
        """Return when everything written is on the disk. Raises: OSError."""
        if self._lost is not None:
            raise self._lost
        self._is_dirty = False  # Before: bytes written during the sync are not covered.
        self.file.sync()

    def sync_beside(self) -> None:
        """Sync for another caller than the writer, which gets an error with the next sync. Raises: OSError.

        It uses a descriptor of its own: the system reports a failed write once for each descriptor, and a
        writer that syncs at the same moment must get the error too. A new descriptor does not get earlier
        errors.
        """
        if self._lost is not None:
            raise self._lost
        try:
            self._file_system.open(self._path(LOG_SUFFIX)).sync()
        except OSError as error:
            self._lost = error
            raise

    def seal(self) -> None:
        """Note that the segment is complete, so that its memory can be released."""
        self._is_sealed = True
        self.close()

    def sibling(self, base_offset: int) -> "Segment":
        """Return another segment of the same log."""
        return Segment(self._file_system, self._directory, base_offset, open_segments=self._open_segments)

    def successor(self, base_offset: int) -> "Segment":
        """Return a sealed segment of the same log, whose files exist. Raises: OSError."""
        segment = self.sibling(base_offset)
        segment.load()
        segment.seal()
        return segment

    def create(self) -> None:
        """Create the empty log file; the files of the indexes are created with their first entries.

        Raises: OSError.
        """
        file = self._file_system.open(self._path(LOG_SUFFIX), create=True)
        file.truncate(0)
        self._start_empty()
        self._hold(file)

    def _start_empty(self) -> None:
        # Values that two threads may read are loaded at once.
        self.index.clear()
        self.time_index.clear()
        self._note_index_change()

    def _note_index_change(self) -> None:
        self._are_indexes_written = False
        self._next_index_bytes = _UNKNOWN

    def load(self) -> None:
        """Take the file's size without a scan: for a segment that is known to be intact. Raises: OSError."""
        # Not kept open: a log may have more segments than a process may have files.
        self.size_bytes = self._file_system.open(self._path(LOG_SUFFIX)).size()

    def sealed_end(self) -> int | None:
        """Return the offset after the last batch, None if the file does not end with a whole one.

        For a segment that was loaded; read from the last index entry on. Raises: OSError.
        """
        next_offset, end = self.base_offset, 0
        if not self.index.is_sane(self.size_bytes):
            return None
        try:
            start = end = self.index.last_position()
            for position, header in iterate_headers(self.file, start, self.size_bytes):
                next_offset, end = header.next_offset, position + header.size_bytes
        except StorageError:
            return None
        return next_offset if end == self.size_bytes else None

    def load_tail(self) -> int:
        """Return the offset after the last batch, read from the last index entry.

        Raises: StorageError when index or tail are not as a clean shutdown leaves them, OSError.
        """
        self.load()
        next_offset = self.base_offset
        if not self.size_bytes:
            self._start_empty()
            return next_offset
        if not self.index.is_sane(self.size_bytes) or not self.time_index.is_sane():
            raise StorageError(f"the indexes of {self._path(LOG_SUFFIX)} do not belong to it")
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        start = self.index.last_position()
        for position, header in iterate_headers(self.file, start, self.size_bytes):
            if position + header.size_bytes > self.size_bytes or header.base_offset < next_offset:
                raise StorageError(f"{self._path(LOG_SUFFIX)} ends within a batch")
            if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                raise StorageError(f"{self._path(LOG_SUFFIX)} has offset {header.last_offset}")
            self._note_batch(position, header)
            next_offset = header.next_offset
        self._bytes_since_index = self.size_bytes - start
        self._read_first_timestamp()
        return next_offset

    def _read_first_timestamp(self) -> None:
        self.first_timestamp = NO_TIMESTAMP
        for _, header in iterate_headers(self.file, 0, self.size_bytes):
            self.first_timestamp = header.max_timestamp
            return

    def _note_batch(self, position: int, header: BatchHeader) -> None:
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        self._recent.append((header.last_offset, position))
        if len(self._recent) > _RECENT_BATCHES_MAX:
            self._recent = self._recent[_RECENT_BATCHES_MAX // 2 :]

    def recover(self, index_interval_bytes: int, point: RecoveryPoint | None = None) -> Prefix:
        """Return the longest valid prefix, at which the file is truncated; its indexes are rebuilt.

        With `point`, which the files must confirm, the scan starts there.
        The file is on the disk afterwards. Raises: OSError, StorageError.
        """
        self.file.reread()  # A batch that the cache alone shows would be a hole once others follow it.
        file_bytes = self.file.size()
        known = None
        if point is None:
            self.index.clear()
            self.time_index.clear()
        else:
            self.index.cut(point.index_bytes)
            self.time_index.cut(point.time_index_bytes)
            known = Prefix(
                point.offset,
                point.max_timestamp_offset,
                point.max_timestamp,
                size_bytes=point.size_bytes,
                unindexed_bytes=point.size_bytes - self.index.last_position(),
            )
        prefix = scan_prefix(self.file, self.base_offset, index_interval_bytes, known)
        self._note_index_change()
        for entry in prefix.index:
            self.index.append(entry.last_offset, entry.position)
            self.time_index.append(entry.max_timestamp, entry.max_timestamp_offset)
        self.size_bytes, self._recent = prefix.size_bytes, []
        if file_bytes:
            if prefix.size_bytes < file_bytes:
                self.file.truncate(prefix.size_bytes)
                self.file.sync()  # All else was synced before it was read.
            self.time_index.append(prefix.max_timestamp, prefix.max_timestamp_offset)
            self.index.write()
            self.time_index.write()
        self._reread_tail()
        self.max_timestamp, self.max_timestamp_offset = prefix.max_timestamp, prefix.max_timestamp_offset
        return prefix

    def recovery_point(self, offset: int) -> RecoveryPoint:
        """Sync the indexes, and return that all below `offset` is on the disk, as the batches are.

        Raises: OSError.
        """
        self.index.write(sync=True)
        self.time_index.write(sync=True)
        return RecoveryPoint(
            self.base_offset,
            offset,
            self.size_bytes,
            self.index.size_bytes,
            self.time_index.size_bytes,
            self.max_timestamp,
            self.max_timestamp_offset,
        )

    def matches(self, point: RecoveryPoint) -> bool:
        """Whether the files match a recovery point: whole batches up to it, and indexes that lead there.

        Raises: OSError.
        """
        if point.base_offset != self.base_offset or self.file.size() < point.size_bytes:
            return False
        if (
            len(self.index.entries) < point.index_bytes
            or len(self.time_index.entries) < point.time_index_bytes
        ):
            return False
        position, expected = self.index.position_at(point.index_bytes), self.base_offset
        try:
            for _, header in iterate_headers(self.file, position, point.size_bytes):
                if header.base_offset < expected:
                    return False
                expected, position = header.next_offset, position + header.size_bytes
        except StorageError:
            return False
        return (expected, position) == (point.offset, point.size_bytes)

    def must_roll_before(self, batch: StagedBatch, pending_bytes: int, config: LogConfig) -> bool:
        """Whether `batch` belongs into a new segment, `pending_bytes` being on their way into this one."""
        size = self.size_bytes + pending_bytes
        if batch.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not size:
            return False
        size += len(batch.data)
        return (
            size > config.segment_bytes
            or size > _MAX_POSITION
            or batch.max_timestamp - self.first_timestamp > self.roll_ms(config)
            or (self._next_index_bytes or self._ask_index_sizes()) > config.segment_index_bytes
        )

    def _ask_index_sizes(self) -> int:
        self._next_index_bytes = max(self.index.size_bytes + 8, self.time_index.size_bytes + 12)
        return self._next_index_bytes

    def roll_ms(self, config: LogConfig) -> int:
        """Return how old this segment grows: less by a jitter that no two logs are likely to share."""
        if config is not self._rolls_by:  # It is asked at each write, and seldom another.
            jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
            less_ms = crc32c(self._path(LOG_SUFFIX).encode()) % jitter_ms if jitter_ms > 0 else 0
            self._rolls_by, self._rolls_after_ms = config, config.roll_ms - less_ms
        return self._rolls_after_ms

    def append(self, run: Sequence[StagedBatch], index_interval_bytes: int) -> None:
        """Write the batches at the end, in one go, and note where they are. Raises: OSError."""
        position = self.size_bytes
        self.file.write_at([batch.data for batch in run], position)
        self._is_dirty = True
        recent = self._recent
        for batch in run:
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
            if self._bytes_since_index > index_interval_bytes:
                self._append_index(batch.last_offset, position)
            recent.append((batch.last_offset, position))
            size = len(batch.data)
            position += size
            self._bytes_since_index += size
        if len(recent) > _RECENT_BATCHES_MAX:
            self._recent = recent[-_RECENT_BATCHES_MAX // 2 :]  # A reader keeps the list that it has.
        self.size_bytes = position
        if not self._are_indexes_written:
            self._are_indexes_written = True  # Before: a reader may meanwhile find that an index is wrong.
            self.index.write()
            self.time_index.write()

    def _append_index(self, last_offset: int, position: int) -> None:
        self.index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._note_index_change()
        self._bytes_since_index = 0

    def finish(self, *, sync: bool = True) -> None:
        """Complete the indexes, when the segment becomes inactive or the log is closed. Raises: OSError."""
        if not self.size_bytes:
            return
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._note_index_change()
        self.index.write(sync=sync)
        self.time_index.write(sync=sync)

    def newest_timestamp(self) -> tuple[int, int]:
        """Return the newest timestamp and the last offset of the batch that has it; -1 for none."""
        if self.max_timestamp == NO_TIMESTAMP and self.size_bytes:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        return self.max_timestamp, self.max_timestamp_offset

    def first_batch_timestamp(self) -> int:
        """Return the newest timestamp of the first batch, -1 for none. Raises: OSError, StorageError."""
        if self.first_timestamp == NO_TIMESTAMP and self.size_bytes:
            self._read_first_timestamp()
        return self.first_timestamp

    def position_of(self, offset: int, size_bytes: int) -> int:
        """Return the position of the first batch that ends at or after `offset`, below `size_bytes`.

        `size_bytes` itself if there is none. Raises: OSError, StorageError.
        """
        recent = self._recent
        if place := bisect_left(recent, (offset, 0)):
            return min(recent[place][1], size_bytes) if place < len(recent) else size_bytes
        start = self.index.lookup(offset)
        if start:
            found = self._position_from(start, offset, size_bytes)
            if found is not None:
                return found
            self._rebuild_index(size_bytes)
        found = self._position_from(0, offset, size_bytes)
        return size_bytes if found is None else found

    def _position_from(self, start: int, offset: int, size_bytes: int) -> int | None:
        """Return the position of the batch, searched from `start`; None if the index entry was wrong.

        Raises: OSError, StorageError.
        """
        if not 0 <= start <= size_bytes:
            return None
        try:
            for position, header in iterate_headers(self.file, start, size_bytes):
                if position == start and start and not self.base_offset <= header.base_offset <= offset:
                    return None
                if header.last_offset >= offset:
                    return position
        except StorageError:
            if start:
                return None
            raise
        return size_bytes

    def _rebuild_index(self, size_bytes: int) -> None:
        """Rebuild the offset index in memory: its file is wrong. Raises: OSError, StorageError."""
        entries: list[tuple[int, int]] = []
        for position, header in iterate_headers(self.file, 0, size_bytes):
            if position - (entries[-1][1] if entries else 0) > _REBUILT_INTERVAL_BYTES:
                entries.append((header.last_offset, position))
        self.index.replace(entries)
        self._note_index_change()

    def truncate_to(self, offset: int) -> int:
        """Return the offset after the last remaining batch: those at or after `offset` are removed.

        Raises: OSError, StorageError.
        """
        self._is_sealed = False
        position = self.position_of(offset, self.size_bytes)
        next_offset = offset
        if position < self.size_bytes:
            _, header = next(iterate_headers(self.file, position, self.size_bytes))
            next_offset = min(offset, header.base_offset)
        self.size_bytes = position
        self.index.truncate_to(next_offset)
        self.time_index.truncate_to(next_offset)
        self._note_index_change()
        self.index.write()
        self.time_index.write()
        self._recent = []
        self.file.truncate(position)
        self.file.sync()
        self._reread_tail()
        return next_offset

    def _reread_tail(self) -> None:
        """Derive again the values that the removed batches may have changed."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        start = self.index.last_position()
        for position, header in iterate_headers(self.file, start, self.size_bytes):
            self._note_batch(position, header)
        self._bytes_since_index = self.size_bytes - start
        self._read_first_timestamp()

    def close(self) -> None:
        """Release the files and the indexes in memory until they are needed; readers keep what they hold."""
        self._file = None
        if self._open_segments is not None:
            self._open_segments.closed(self)
        self._recent = []
        self.index.close()
        self.time_index.close()
        self._note_index_change()  # The files may be others when the entries are read again.

    def retire(self) -> None:
        """Open no file any more: another segment will get the names. Readers keep what they hold."""
        self._is_retired = True
        self.index.retire()
        self.time_index.retire()

    def remove(self) -> None:
        """Remove the files; readers that still hold one keep it. Raises: OSError."""
        self.close()
        for path in reversed(self.paths):
            self._file_system.remove(path)
