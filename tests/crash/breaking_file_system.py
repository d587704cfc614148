"""A disk for a whole broker in memory: it fails at a chosen call, and may be asked what a crash leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import RLock

import msgspec

from kohort.storage.filesystem import StrPath
from kohort.storage.memory_filesystem import MemoryFile, MemoryFileSystem, Operation

Strike = Callable[["BreakingFileSystem", Operation], None]
"""What happens instead of an operation: it raises, or does less than it says."""


class BreakingFileSystem(MemoryFileSystem):
    """Any thread may use it. `strike_at` counts the operations that change something, from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.strike: Strike | None = None
        self.strike_at = 0
        self.strikes = 1  # For so many operations, one after the other.
        self.struck = 0
        self.reads = 0
        self.fail_reads: range = range(0)
        self.failed_reads = 0
        self._paths: dict[int, str] = {}
        self._mutex = RLock()

    @classmethod
    def on(cls, survivor: MemoryFileSystem) -> BreakingFileSystem:
        """Return a disk, in order again, with what a crash has left on another."""
        disk = cls()
        for operation in survivor.operations:
            disk.note(operation)
        disk.count = 0
        return disk

    def path_of(self, operation: Operation) -> str:
        """Return the path of the file that an operation is about, under its first name."""
        return operation.path or self._paths.get(operation.file, "")

    def do(self, operation: Operation) -> None:
        """Do an operation as a disk in order would."""
        super().note(operation)

    def note(self, operation: Operation) -> None:
        """Do the operation, or what strikes in its place."""
        with self._mutex:
            if operation.kind == "create":
                self._paths[operation.file] = operation.path
            place, self.count = self.count, self.count + 1
            if self.strike is not None and 0 <= place - self.strike_at < self.strikes:
                self.struck += 1
                self.strike(self, operation)
            else:
                self.do(operation)

    def open(self, path: StrPath, *, create: bool = False) -> MemoryFile:
        """Return the file; with `create` it may be new."""
        with self._mutex:
            return super().open(path, create=create)

    def read(self, path: StrPath) -> bytes | None:
        """Return a file's content. Raises: OSError when reads fail."""
        with self._mutex:
            self.before_read()
            return super().read(path)

    def before_read(self) -> None:
        """Raise EIO while reads fail."""
        place, self.reads = self.reads, self.reads + 1
        if place in self.fail_reads:
            self.failed_reads += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        """Give the file a new content at once or, after a crash, not at all."""
        with self._mutex:
            super().replace(path, content, sync=sync)

    def list_directory(self, path: StrPath) -> list[str] | None:
        """Return the names in a folder, None when there is no such folder."""
        with self._mutex:
            return super().list_directory(path)

    def after_crash(
        self, count: int | None = None, choose: Callable[[int], int] | None = None
    ) -> MemoryFileSystem:
        """Return what is found again."""
        with self._mutex:
            return super().after_crash(count, choose)


def disk_full(disk: BreakingFileSystem, operation: Operation) -> None:
    """Find no room for what needs some; the rest goes on."""
    if operation.kind in ("write", "create", "make"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    disk.do(operation)


def failing(disk: BreakingFileSystem, operation: Operation) -> None:
    """Fail, whatever it is; what a failed sync covered is lost."""
    if operation.kind == "sync":
        disk.do(Operation("lost", file=operation.file))
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def failing_sync(disk: BreakingFileSystem, operation: Operation) -> None:
    """Fail where it is a sync."""
    if operation.kind in ("sync", "sync folder"):
        failing(disk, operation)
    disk.do(operation)


def torn_write(disk: BreakingFileSystem, operation: Operation) -> None:
    """Write half, and fail."""
    if operation.kind == "write":
        disk.do(msgspec.structs.replace(operation, data=operation.data[: len(operation.data) // 2]))
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    disk.do(operation)


def lying_sync(disk: BreakingFileSystem, operation: Operation) -> None:
    """Say that batches are on the disk while they are not; names and checkpoints are honest."""
    if operation.kind == "sync" and disk.path_of(operation).endswith((".log", ".journal")):
        return
    disk.do(operation)
