"""The aborted transactions of a log: which records a reader of committed data passes over.

`.txnindex` of a segment has the aborted transactions whose markers are in it, in the order of the markers:
version int16 (0), producer id, first offset, last offset, last stable offset int64. Written with the marker,
synced before a producer snapshot covers it; entries after the newest snapshot are derived from the log again.
Source: KIP-98; org.apache.kafka.storage.internals.log.TransactionIndex, AbortedTxn.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from kohort.storage.compaction import AbortedTransaction
from kohort.storage.filesystem import FileSystem
from kohort.storage.scan import iterate_headers
from kohort.storage.segment import TRANSACTION_INDEX_SUFFIX, Segment, file_name

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_LAST_OFFSET = attrgetter("last_offset")


class AbortedTransactions:
    """Those of a whole log, by the order of their markers. One thread changes them, any may look."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._entries = sorted(entries, key=_LAST_OFFSET)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._entries)

    def add(self, entry: AbortedTransaction) -> None:
        """Add a transaction whose marker is after all others."""
        self._entries.append(entry)

    def replace(self, begin: int, end: int, entries: Sequence[AbortedTransaction]) -> None:
        """Replace the transactions whose markers are from `begin` up to `end`."""
        known = self._entries
        first = bisect_left(known, begin, key=_LAST_OFFSET)
        last = bisect_left(known, end, key=_LAST_OFFSET)
        self._entries = [*known[:first], *entries, *known[last:]]

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the transactions that a reader may meet from `start_offset` up to `end_offset`."""
        known, found = self._entries, []
        for place in range(bisect_left(known, start_offset, key=_LAST_OFFSET), len(known)):
            each = known[place]
            if each.first_offset < end_offset:
                found.append(each)
            if each.last_stable_offset >= end_offset:
                break  # A transaction that ended later started after that.
        return found


def encode_entry(entry: AbortedTransaction) -> bytes:
    """Return the entry as the file has it."""
    return _ENTRY.pack(
        _VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
    )


def decode_transaction_index(content: bytes) -> Iterator[AbortedTransaction]:
    """Yield the whole entries that make sense."""
    for start in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
        version, producer_id, first, last, last_stable = _ENTRY.unpack_from(content, start)
        if version == _VERSION and 0 <= first < last:
            yield AbortedTransaction(producer_id, first, last, last_stable)


class TransactionIndexFiles:
    """The `.txnindex` files of a folder. Every method may raise OSError."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory
        self._unsynced: set[str] = set()

    def _path(self, base_offset: int) -> str:
        return f"{self._directory}/{file_name(base_offset, TRANSACTION_INDEX_SUFFIX)}"

    def append(self, base_offset: int, entry: AbortedTransaction) -> None:
        """Append an entry to those of a segment."""
        path = self._path(base_offset)
        file = self._file_system.open(path, create=True)
        file.write_at([encode_entry(entry)], file.size())
        self._unsynced.add(path)

    def sync(self) -> None:
        """Return once all entries are on the disk."""
        if not self._unsynced:
            return
        for path in sorted(self._unsynced):
            if self._file_system.read(path) is not None:  # Otherwise its segment was deleted meanwhile.
                self._file_system.open(path).sync()
        self._file_system.sync_directory(self._directory)
        self._unsynced.clear()

    def read(self, base_offset: int) -> list[AbortedTransaction]:
        """Return the entries of a segment."""
        return list(decode_transaction_index(self._file_system.read(self._path(base_offset)) or b""))

    def write(
        self, base_offset: int, entries: Sequence[AbortedTransaction], *, may_be_lost: bool = False
    ) -> None:
        """Let a segment have these entries and no others, on the disk with the next `sync`.

        Entries that may be lost are written although the file shows them: a failed sync leaves them
        in the cache, from which no later sync writes them.
        """
        path = self._path(base_offset)
        content = b"".join(map(encode_entry, entries))
        if not may_be_lost and (self._file_system.read(path) or b"") == content:
            return
        self._unsynced.add(path)
        if content:
            self._file_system.replace(path, content)
        else:
            self._file_system.remove(path)

    def load(
        self,
        segments: Sequence[Segment],
        names: Sequence[str],
        *,
        known_up_to: int,
        log_end_offset: int,
        seen: Sequence[AbortedTransaction],
    ) -> AbortedTransactions:
        """Return the entries of markers before `known_up_to` in the files, and `seen`, which come after it.

        Afterwards the files have all of them on the disk: entries of `seen` in the files may be only in
        the cache, or a sync may have lost them, and the next snapshot relies on them.
        """
        aborted = AbortedTransactions(seen)
        bounds = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
        for segment, bound in zip(segments, bounds, strict=True):
            base = segment.base_offset
            has_file = file_name(base, TRANSACTION_INDEX_SUFFIX) in names
            if not has_file and (bound <= known_up_to or not seen):
                continue
            kept = [each for each in self.read(base) if base <= each.last_offset < min(bound, known_up_to)]
            new = [each for each in seen if base <= each.last_offset < bound]
            aborted.replace(base, bound, [*kept, *new])
            self.write(base, [*kept, *new], may_be_lost=bool(new))
        self.sync()
        return aborted


def with_markers(
    entries: Iterable[AbortedTransaction], segments: Sequence[Segment]
) -> list[AbortedTransaction]:
    """Return the transactions whose markers still exist: compaction has removed the others completely.

    Raises: OSError, StorageError.
    """
    return [each for each in entries if _has_marker(each, segments)]


def _has_marker(each: AbortedTransaction, segments: Sequence[Segment]) -> bool:
    holding = [segment for segment in segments if segment.base_offset <= each.last_offset]
    if not holding:
        return False
    segment = holding[-1]
    position = segment.position_of(each.last_offset, segment.size_bytes)
    header = next((header for _, header in iterate_headers(segment.file, position, segment.size_bytes)), None)
    return header is not None and header.is_control and header.producer_id == each.producer_id
