"""Segments that take others' places, and segments that go, by renaming files: a crash leaves all or nothing.

`.cleaned`: incomplete, worthless after a crash. `.swap`: complete and on the disk; from the moment that
the log file has this suffix, the segments that it replaces are obsolete, and recovery finishes the swap.
`.deleted`: to be removed after a while. The names are Kafka's, and so is what each means.
Source: org.apache.kafka.storage.internals.log.LocalLog.replaceSegments, LogLoader.
"""

from collections.abc import Sequence

import msgspec

from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.scan import iterate_headers
from kohort.storage.segment import LOG_SUFFIX, SUFFIXES, Segment, file_name

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

_DIGITS = 20


class Replacement(msgspec.Struct, frozen=True):
    """A new segment, complete and on the disk, and the neighbours that it replaces."""

    cleaned: Segment
    replaced: tuple[Segment, ...]


def _rename(file_system: FileSystem, source: str, target: str) -> bool:
    """Return whether the file was there to be renamed; indexes of small segments are not. Raises: OSError."""
    try:
        file_system.rename(source, target)
    except FileNotFoundError:
        return False
    return True


def promise(file_system: FileSystem, directory: str, base_offset: int) -> None:
    """Promise a cleaned segment, which is on the disk: from now on it replaces the old ones.

    Raises: OSError.
    """
    file_system.sync_directory(directory)
    for suffix in SUFFIXES:
        path = f"{directory}/{file_name(base_offset, suffix)}"
        _rename(file_system, path + CLEANED, path + SWAP)
    file_system.sync_directory(directory)


def set_aside(file_system: FileSystem, segments: Sequence[Segment]) -> list[str]:
    """Return the new paths of files that are to be removed in a while. Raises: OSError."""
    deleted: list[str] = []
    for segment in segments:
        segment.retire()
        for path in reversed(segment.paths):
            if _rename(file_system, path, path + DELETED):
                deleted.append(path + DELETED)
        segment.close()
    return deleted


class DeletedFiles:
    """Deleted files, kept for a while under other names. One thread adds, another may remove."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._due: dict[str, int] = {}  # The soonest is the first.

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Have the files removed at that time."""
        for path in paths:
            self._due.pop(path, None)  # A file of that name, of an earlier round, has been overwritten.
            self._due[path] = due_ms

    def remove_due(self, now_ms: int) -> int:
        """Return how many files were removed after their delay. Raises: OSError."""
        due = [path for path, due_ms in list(self._due.items()) if due_ms <= now_ms]
        for path in due:
            self._file_system.remove(path)
            self._due.pop(path, None)
        return len(due)


def take_place(file_system: FileSystem, directory: str, base_offset: int) -> None:
    """Give the segment that was promised its name. Raises: OSError."""
    for suffix in SUFFIXES:
        path = f"{directory}/{file_name(base_offset, suffix)}"
        _rename(file_system, path + SWAP, path)


def finish_swaps(file_system: FileSystem, directory: str, names: Sequence[str]) -> bool:
    """Return whether a crash had left a swap unfinished: a promised one is finished, others are undone.

    `names` are those in the folder. Raises: OSError, StorageError.
    """
    undone = [name for name in names if name.endswith(CLEANED)]
    first_undone = min((_base_offset(name) for name in undone), default=None)
    promised: list[int] = []
    for name in sorted(names):
        if not name.endswith(SWAP):
            continue
        base_offset = _base_offset(name)
        if f"{file_name(base_offset, LOG_SUFFIX)}{SWAP}" not in names or (
            first_undone is not None and base_offset >= first_undone
        ):
            undone.append(name)
        elif name.endswith(LOG_SUFFIX + SWAP):
            promised.append(base_offset)
    for name in undone:
        file_system.remove(f"{directory}/{name}")
    for base_offset in promised:
        _finish_swap(file_system, directory, base_offset, names)
    if promised or undone:
        file_system.sync_directory(directory)
    return bool(promised or undone)


def _base_offset(name: str) -> int:
    stem = name[:_DIGITS]
    return int(stem) if stem.isdecimal() else 0


def _finish_swap(file_system: FileSystem, directory: str, base_offset: int, names: Sequence[str]) -> None:
    """Remove the segments that the promised one replaces, and give it its name."""
    next_offset = _next_offset(file_system, directory, base_offset)
    for name in names:
        if name.endswith(SUFFIXES) and base_offset <= _base_offset(name) < max(next_offset, base_offset + 1):
            file_system.remove(f"{directory}/{name}")
    take_place(file_system, directory, base_offset)


def _next_offset(file_system: FileSystem, directory: str, base_offset: int) -> int:
    file = file_system.open(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{SWAP}")
    next_offset, end, size = base_offset, 0, file.size()
    for position, header in iterate_headers(file, 0, size):
        next_offset, end = header.next_offset, position + header.size_bytes
    if end != size:
        raise StorageError(f"the swap file at offset {base_offset} of {directory} ends within a batch")
    return next_offset
