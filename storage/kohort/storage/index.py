"""The two sparse indexes of a segment, in memory in their disk format.

`.index`: relative offset int32, position int32: the batch that starts at the position ends with the
offset. `.timeindex`: timestamp int64, relative offset int32: no record up to the offset is newer.
Both are derived from the log: parts lost in a crash are rebuilt.
Source: org.apache.kafka.storage.internals.log.OffsetIndex, TimeIndex.
"""

import errno
import os
import struct
from collections.abc import Iterable

from kohort.storage.filesystem import File, FileSystem

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class _Index:
    """Entries of one size: read from the file at first use, written after the log's bytes."""

    __slots__ = (
        "_entries",
        "_entry_bytes",
        "_file",
        "_file_system",
        "_is_retired",
        "_path",
        "_persisted_bytes",
        "base_offset",
    )

    def __init__(self, file_system: FileSystem, path: str, base_offset: int, entry_bytes: int) -> None:
        self._file_system = file_system
        self._path = path
        self._entry_bytes = entry_bytes
        self._entries: bytearray | None = None
        self._file: File | None = None
        self._persisted_bytes = 0
        self._is_retired = False
        self.base_offset = base_offset

    @property
    def entries(self) -> bytearray:
        """All entries, concatenated. A file that is not a whole number of entries is ignored."""
        entries = self._entries
        if entries is None:
            content = self._file_system.read(self._path) or b""
            self._check_not_retired()
            if len(content) % self._entry_bytes:
                content = b""
            entries = self._entries = bytearray(content)
            self._persisted_bytes = len(content)
        return entries

    def _check_not_retired(self) -> None:
        if self._is_retired:  # The entries just read may be another segment's.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)

    def retire(self) -> None:
        """Stop reading the file: another segment will get its name."""
        self._is_retired = True

    @property
    def size_bytes(self) -> int:
        """How large the file is once all entries are in it."""
        entries = self._entries
        return len(self.entries if entries is None else entries)

    def size_on_disk(self) -> int:
        """Return how large the file is, without loading it. Raises: OSError."""
        if self._entries is not None:
            return len(self._entries)
        try:
            return self._file_system.open(self._path).size()
        except FileNotFoundError:
            return 0

    def clear(self) -> None:
        """Forget every entry, to be rebuilt; the file follows with the next `write`."""
        self._entries = bytearray()
        self._persisted_bytes = -1

    def cut(self, size_bytes: int) -> None:
        """Keep the first `size_bytes` of the entries."""
        if size_bytes < len(self.entries):
            del self.entries[size_bytes:]
            self._persisted_bytes = -1

    def write(self, *, sync: bool = False) -> None:
        """Bring the file up to the entries. Raises: OSError."""
        entries = self._entries
        if entries is None:
            entries = self.entries
        size = len(entries)
        if self._persisted_bytes == size and not sync:
            return
        file = self._file  # Another thread may release it concurrently.
        if file is None:
            file = self._file = self._file_system.open(self._path, create=True)
        if self._persisted_bytes < 0:
            file.truncate(0)
            self._persisted_bytes = 0
        if self._persisted_bytes < size:
            file.write_at([bytes(entries[self._persisted_bytes :])], self._persisted_bytes)
            self._persisted_bytes = size
        if sync:
            file.sync()

    def _read_last(self) -> bytes:
        """Return the last entry in the file, nothing if the file is missing or damaged."""
        try:
            file = self._file_system.open(self._path)
        except FileNotFoundError:
            return b""
        size = file.size()
        whole = size and not size % self._entry_bytes
        last = file.read_at(self._entry_bytes, size - self._entry_bytes) if whole else b""
        self._check_not_retired()
        return last

    def let_go(self, *, forget: bool) -> None:
        """Close the file until it is written to again, and with `forget` the entries until asked for."""
        self._file = None
        if forget:
            self._entries = None

    def close(self) -> None:
        """Let the file go; the entries are read again when asked for."""
        self._file = None
        self._entries = None


class OffsetIndex(_Index):
    """From an offset to the position of a batch at or before it."""

    __slots__ = ()

    def __init__(self, file_system: FileSystem, path: str, base_offset: int) -> None:
        super().__init__(file_system, path, base_offset, _OFFSET_ENTRY.size)

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at `position` ends with `offset`."""
        self.entries.extend(_OFFSET_ENTRY.pack(offset - self.base_offset, position))

    def lookup(self, offset: int) -> int:
        """Return where to search for `offset`: of the last indexed batch that may hold it, or 0."""
        entries = self.entries
        place = self._place(entries, offset)
        return int(_OFFSET_ENTRY.unpack_from(entries, (place - 1) * 8)[1]) if place else 0

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Replace all entries by `entries`, offsets with positions.

        The file is written with the next `write`.
        """
        packed = bytearray()
        for offset, position in entries:
            packed.extend(_OFFSET_ENTRY.pack(offset - self.base_offset, position))
        self._entries = packed
        self._persisted_bytes = -1

    def last_position(self) -> int:
        """Return the position of the last noted batch, or 0."""
        return self.position_at(len(self.entries))

    def position_at(self, size_bytes: int) -> int:
        """Return the position of the last batch that the first `size_bytes` of the entries note, or 0."""
        return int(_OFFSET_ENTRY.unpack_from(self.entries, size_bytes - 8)[1]) if size_bytes else 0

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of batches that end at or after `offset`."""
        self.cut(self._place(self.entries, offset - 1) * 8)

    def _place(self, entries: bytearray, offset: int) -> int:
        """Return how many entries are of `offset` or before it."""
        relative, unpack = offset - self.base_offset, _OFFSET_ENTRY.unpack_from
        low, high = 0, len(entries) // 8
        while low < high:
            middle = (low + high) >> 1
            if unpack(entries, middle * 8)[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return low

    def is_sane(self, log_bytes: int) -> bool:
        """Whether the entries are possible for a log of `log_bytes`: the last one decides."""
        entries = self.entries
        if not entries:
            return True
        relative, position = _OFFSET_ENTRY.unpack_from(entries, len(entries) - 8)
        return bool(relative >= 0 and 0 < position < log_bytes)


class TimeIndex(_Index):
    """From a timestamp to an offset up to which no record is newer."""

    __slots__ = ()

    def __init__(self, file_system: FileSystem, path: str, base_offset: int) -> None:
        super().__init__(file_system, path, base_offset, _TIME_ENTRY.size)

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Add the newest timestamp so far and its batch's last offset, unless it is not newer."""
        entries = self.entries
        if timestamp_ms < 0:
            return
        if entries and _TIME_ENTRY.unpack_from(entries, len(entries) - 12)[0] >= timestamp_ms:
            return
        entries.extend(_TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset))

    def last(self) -> tuple[int, int]:
        """Return the newest timestamp and its offset; (-1, the base offset) if there is none.

        An index that is not in memory is not loaded for it.
        """
        entries: bytearray | bytes | None = self._entries
        if entries is None:
            entries = self._read_last()
        if not entries:
            return -1, self.base_offset
        timestamp_ms, relative = _TIME_ENTRY.unpack_from(entries, len(entries) - 12)
        return timestamp_ms, self.base_offset + relative

    def lookup(self, timestamp_ms: int) -> int:
        """Return an offset up to which no record is newer than `timestamp_ms`, the base offset if unknown."""
        entries, unpack = self.entries, _TIME_ENTRY.unpack_from
        low, high = 0, len(entries) // 12
        while low < high:
            middle = (low + high) >> 1
            if unpack(entries, middle * 12)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.base_offset + int(unpack(entries, (low - 1) * 12)[1]) if low else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after `offset`."""
        entries, relative = self.entries, offset - self.base_offset
        size = len(entries)
        while size and _TIME_ENTRY.unpack_from(entries, size - 12)[1] >= relative:
            size -= 12
        self.cut(size)

    def is_sane(self) -> bool:
        """Whether the last entry is not older than the first, as a zero tail would be."""
        entries = self.entries
        if not entries:
            return True
        first, last = _TIME_ENTRY.unpack_from(entries), _TIME_ENTRY.unpack_from(entries, len(entries) - 12)
        return bool(last[0] >= first[0] and last[1] >= first[1])
