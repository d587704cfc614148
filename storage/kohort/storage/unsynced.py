"""The operating system's file system without a sync: for data that may be lost.

Written bytes are visible to every reader and to the next process that opens the folder, until the machine
stops.
"""

import os

from kohort.storage.filesystem import File, OsFileSystem, StrPath


class _Unsynced:
    """A file that takes no time to sync."""

    __slots__ = ("_file", "file_descriptor", "read_at", "size", "truncate", "write_at")

    def __init__(self, file: File) -> None:
        self._file = file  # It closes with its last holder.
        self.file_descriptor = file.file_descriptor
        self.size = file.size
        self.read_at = file.read_at
        self.write_at = file.write_at
        self.truncate = file.truncate

    def sync(self) -> None:
        """Return at once."""

    def reread(self) -> None:
        """Return at once: no sync has failed."""


class UnsyncedFileSystem(OsFileSystem):
    """Files and folders as they are, of which none is ever synced."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        """Return the file, opened to read and write; with `create` it is created if missing."""
        return _Unsynced(super().open(path, create=create))

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        """Give the file a new content at once."""
        super().replace(path, content, sync=False)

    def sync_directory(self, path: StrPath) -> None:
        """Return once the folder is known to be there. Raises: FileNotFoundError."""
        os.stat(path)
