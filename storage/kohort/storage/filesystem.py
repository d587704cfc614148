"""The few things that this room asks of a file system, and the operating system's own.

Every write goes through here, so that a test can tear writes, lose unsynced bytes, fill the disk
and fail a sync.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from kohort.storage.operating_system import (
    HAS_PWRITEV,
    O_BINARY,
    SYNCS_DIRECTORIES,
    Buffer,
    c_function,
    drop_cache,
    lock_file,
    pread,
    pwrite,
    sync_data,
)
from kohort.storage.privacy import DIRECTORY_MODE, FILE_MODE, Privacy, close_to_others

StrPath = str | os.PathLike[str]

_MAX_PARTS = 1024  # IOV_MAX of Linux and of macOS.


class File(Protocol):
    """An open file. It closes when its last holder releases it: a reader may still be sending from it.

    Every method may raise OSError.
    """

    @property
    def file_descriptor(self) -> int:
        """What `os.pread` and `os.sendfile` take."""
        ...

    def size(self) -> int:
        """How many bytes it holds."""
        ...

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position` on; fewer only at the end."""
        ...

    def write_at(self, parts: Sequence[Buffer], position: int) -> None:
        """Write all `parts` consecutively from `position`."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        ...

    def reread(self) -> None:
        """Sync, and read from the disk from now on.

        After a sync that failed, in this process or in one before, the cache shows bytes that the disk does
        not hold, and that no later sync writes.
        """
        ...


class FileSystem(Protocol):
    """Folders and files by their paths. Every method may raise OSError."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        """Return the file, opened to read and write; with `create` it is created if missing."""
        ...

    def read(self, path: StrPath) -> bytes | None:
        """Return a small file's content, None when there is no such file."""
        ...

    def size(self, path: StrPath) -> int | None:
        """Return how many bytes a file holds, without opening it; None when there is no such file."""
        ...

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        """Give the file a new content at once or, after a crash, not at all."""
        ...

    def list_directory(self, path: StrPath) -> list[str] | None:
        """Return the names in a folder, None when there is no such folder."""
        ...

    def make_directory(self, path: StrPath) -> None:
        """Create the folder and its parents if they are missing; other users cannot enter it."""
        ...

    def close_to_others(self, path: StrPath) -> Privacy:
        """Remove other users' permissions on an existing data folder and its content; return the result."""
        ...

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Give a file or a folder another name in the same folder."""
        ...

    def remove(self, path: StrPath) -> None:
        """Remove a file; a missing file is no error."""
        ...

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty folder; a missing folder is no error."""
        ...

    def sync_directory(self, path: StrPath) -> None:
        """Return once the names in a folder are on the disk."""
        ...

    def lock(self, path: StrPath) -> object | None:
        """Return a lock that is valid while it is held, None when another process has it."""
        ...


class OsFile:
    """A file of the operating system, held open by its descriptor."""

    __slots__ = ("file_descriptor",)

    def __init__(self, file_descriptor: int) -> None:
        self.file_descriptor = file_descriptor

    def __del__(self) -> None:
        os.close(self.file_descriptor)

    def size(self) -> int:
        """How many bytes it holds."""
        return os.fstat(self.file_descriptor).st_size

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position` on; fewer only at the end."""
        data = pread(self.file_descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]  # One call returns 2 GB at most, and signals may cut it short.
        while data:
            size, position = size - len(data), position + len(data)
            data = pread(self.file_descriptor, size, position)
            parts.append(data)
        return b"".join(parts)

    def write_at(self, parts: Sequence[Buffer], position: int) -> None:
        """Write all `parts` consecutively from `position`."""
        if len(parts) == 1:
            part = parts[0]
            written = pwrite(self.file_descriptor, part, position)
            if written != len(part):
                self._write_rest(memoryview(part)[written:], position + written)
            return
        for start in range(0, len(parts), _MAX_PARTS):
            chunk = parts[start : start + _MAX_PARTS]
            size = sum(map(len, chunk))
            if HAS_PWRITEV:
                written = os.pwritev(self.file_descriptor, chunk, position)
            else:
                written = pwrite(self.file_descriptor, b"".join(chunk), position)
            if written != size:
                self._write_rest(memoryview(b"".join(chunk))[written:], position + written)
            position += size

    def _write_rest(self, rest: memoryview, position: int) -> None:
        while rest:
            written = pwrite(self.file_descriptor, rest, position)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest, position = rest[written:], position + written

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self.file_descriptor, size)

    def sync(self) -> None:
        """Return when everything written is on the disk; a file that was deleted does not count."""
        sync_data(self.file_descriptor)
        if not _count_links(self.file_descriptor):
            raise FileNotFoundError(errno.ENOENT, "The file was removed while it was in use")

    def reread(self) -> None:
        """Sync, and drop the cache: after a failed sync the cache differs from the disk."""
        self.sync()
        drop_cache(self.file_descriptor)


def count_links_by_stat(file_descriptor: int) -> int:
    """Return how many names an open file has. Raises: OSError."""
    return os.fstat(file_descriptor).st_nlink


def choose_count_links(statx: Callable[[int, bytes, int, int, object], int] | None) -> Callable[[int], int]:
    """Return what counts the names of an open file; `statx` is the C library's, where it has one.

    After its times were read, Linux gives a file a new time with the next write, which the next sync has to
    write: a stat after each sync makes syncs half as long again. statx reads only the requested fields.
    """
    if statx is None:
        return count_links_by_stat

    def count_links(file_descriptor: int) -> int:
        answer = _Statx()
        if statx(file_descriptor, b"", _AT_EMPTY_PATH, _STATX_NLINK, answer):
            return count_links_by_stat(file_descriptor)  # A kernel without it, or a sandbox that forbids it.
        links: int = _STATX_LINKS.unpack_from(answer, _STATX_LINKS_AT)[0]
        return links

    return count_links


_AT_EMPTY_PATH = 0x1000
_STATX_NLINK = 0x4
_STATX_LINKS = struct.Struct("=I")
_STATX_LINKS_AT = 16
_Statx = ctypes.c_char * 256
"""`struct statx`: stx_mask, stx_blksize (uint32), stx_attributes (uint64), stx_nlink (uint32), and more."""

_count_links = choose_count_links(c_function("statx"))


class OsFileSystem:
    """The file system that there is."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        """Return the file, opened to read and write; with `create` it is created if missing."""
        flags = os.O_RDWR | O_BINARY | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, FILE_MODE))

    def read(self, path: StrPath) -> bytes | None:
        """Return a small file's content, None when there is no such file."""
        try:
            file_descriptor = os.open(path, os.O_RDONLY | O_BINARY)
        except FileNotFoundError:
            return None
        file = OsFile(file_descriptor)
        return file.read_at(file.size(), 0)

    def size(self, path: StrPath) -> int | None:
        """Return how many bytes a file holds, without opening it; None when there is no such file."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        """Give the file a new content at once or, after a crash, not at all."""
        temporary = f"{os.fspath(path)}.tmp"
        file = OsFile(os.open(temporary, os.O_RDWR | O_BINARY | os.O_CREAT | os.O_TRUNC, FILE_MODE))
        file.write_at([content], 0)
        if sync:
            file.sync()
        del file  # Windows renames no file that is open.
        os.replace(temporary, path)

    def list_directory(self, path: StrPath) -> list[str] | None:
        """Return the names in a folder, None when there is no such folder."""
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return None

    def make_directory(self, path: StrPath) -> None:
        """Create the folder and its parents if they are missing; other users cannot enter it."""
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileNotFoundError:
            self.make_directory(os.path.dirname(os.fspath(path)))
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def close_to_others(self, path: StrPath) -> Privacy:
        """Remove other users' permissions on an existing data folder and its content; return the result."""
        return close_to_others(os.fspath(path))

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Give a file or a folder another name in the same folder."""
        os.rename(source, target)

    def remove(self, path: StrPath) -> None:
        """Remove a file; a missing file is no error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty folder; a missing folder is no error."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def sync_directory(self, path: StrPath) -> None:
        """Return once the names in a folder are on the disk."""
        if not SYNCS_DIRECTORIES:
            return
        file_descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file_descriptor)
        finally:
            os.close(file_descriptor)

    def lock(self, path: StrPath) -> object | None:
        """Return a lock that is valid while it is held, None when another process has it."""
        file = OsFile(os.open(path, os.O_RDWR | O_BINARY | os.O_CREAT, FILE_MODE))
        return file if lock_file(file.file_descriptor) else None
