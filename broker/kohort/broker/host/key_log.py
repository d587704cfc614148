"""The keys of one host's brokers in a file: every change a line, the first line all that there was.

Each line is the CRC-32 of the rest, a space, and JSON. A line truncated by a crash is the last
one, and was not acknowledged. Now and then, and at each start, the whole file is rewritten.
"""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from kohort.broker.etcd.key_store import Entry
from kohort.storage import FileSystem, StorageError
from kohort.storage.filesystem import File

FORMAT = 1
REWRITE_BYTES_MIN = 1024 * 1024
REWRITE_GROWTH = 4
"""The file may grow to so many times its size after a rewrite."""


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `Entry`; without a `version` the key is gone."""

    key: str
    revision: int
    value: str = ""
    create_revision: int = 0
    version: int = 0
    lease: int = 0


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    revision: int
    entries: tuple[_Entry, ...]
    format: int = 0


class KeyLog:
    """The file, and its content. Its calls block, one after another."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        """Read what there is. Raises: StorageError."""
        self._files = files
        self._path = path
        self._file: File | None = None  # None: it has to be rewritten.
        self._size = self._size_at_first = 0
        self.entries: dict[bytes, Entry] = {}
        """The content on the disk."""
        self.revision = 1
        try:
            content = files.read(path)
        except OSError as error:
            raise StorageError(f"{path} can't be read: {error}") from error
        for line in self._lines(content or b""):
            self._take(map(_entry, line.entries), line.revision)

    def _lines(self, content: bytes) -> list[_Line]:
        """Return the content of the lines. Raises: StorageError if any but the last is damaged."""
        found = []
        texts = content.split(b"\n")
        for number, text in enumerate(texts, 1):
            line = _decoded(text)
            if line is not None:
                found.append(line)
            elif any(_decoded(each) is not None for each in texts[number:]) or (number == 1 and content):
                raise StorageError(
                    f"{self._path} is damaged in line {number}; put back a whole backup of the data folder"
                )
            else:
                break
        if found and found[0].format != FORMAT:
            raise StorageError(f"{self._path} is of a version that is not known here")
        return found

    def _take(self, entries: Iterable[Entry], revision: int) -> None:
        self.revision = revision
        for entry in entries:
            if entry.value is None:
                self.entries.pop(entry.key, None)
            else:
                self.entries[entry.key] = entry

    def append(self, entries: Iterable[Entry], revision: int) -> None:
        """Return once these changes are on the disk. Raises: StorageError; then no start finds them.

        If the disk refuses everything, even a shorter file, the content at the next start is unknown.
        """
        changes = tuple(entries)
        try:
            if self._file is None or self._size > max(
                REWRITE_BYTES_MIN, self._size_at_first * REWRITE_GROWTH
            ):
                self._write_anew(changes, revision)
            else:
                line = _encoded(_Line(revision, tuple(map(_written, changes))))
                self._file.write_at([line], self._size)
                self._file.sync()
                self._size += len(line)
        except OSError as error:
            self._take_back()
            raise StorageError(f"{self._path} can't be written: {error.strerror}") from error
        self._take(changes, revision)

    def _take_back(self) -> None:
        """Remove a line that a failed write or sync may have left: it was refused."""
        file, self._file = self._file, None  # The part of this line in the file is unknown.
        with suppress(OSError):
            if file is not None:
                file.truncate(self._size)
        with suppress(OSError):  # The next change rewrites it.
            self._write_anew((), self.revision)

    def _write_anew(self, changes: tuple[Entry, ...], revision: int) -> None:
        """Give the file all that there is with these changes. Raises: OSError."""
        entries = {**self.entries, **{each.key: each for each in changes}}
        all_of_it = tuple(_written(each) for each in entries.values() if each.value is not None)
        content = _encoded(_Line(revision, all_of_it, FORMAT))
        self._file = None
        self._files.replace(self._path, content)
        self._files.sync_directory(self._path.parent)
        self._file = self._files.open(self._path)
        self._size = self._size_at_first = len(content)


def _entry(written: _Entry) -> Entry:
    value = written.value.encode() if written.version else None
    key = written.key.encode()
    return Entry(key, value, written.create_revision, written.revision, written.version, written.lease)


def _written(entry: Entry) -> _Entry:
    if entry.value is None:
        return _Entry(entry.key.decode(), entry.revision)
    return _Entry(
        entry.key.decode(),
        entry.revision,
        entry.value.decode(),
        entry.create_revision,
        entry.version,
        entry.lease,
    )


def _encoded(line: _Line) -> bytes:
    content = msgspec.json.encode(line)
    return b"%08x %b\n" % (zlib.crc32(content), content)


def _decoded(text: bytes) -> _Line | None:
    """Return the content of a whole line, None for any other."""
    crc, _, content = text.partition(b" ")
    if not content or crc != b"%08x" % zlib.crc32(content):
        return None
    try:
        return msgspec.json.decode(content, type=_Line)
    except msgspec.DecodeError:
        return None
