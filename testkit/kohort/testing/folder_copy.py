"""The data folder of a test's broker, copied into memory, and written into the folders of other brokers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kohort.broker.ephemeral import NOT_COPIED

FOLDER_MODE = 0o700
FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """The folders, outer ones first, and the files of a data folder, by their relative paths."""

    folders: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, folder: Path) -> "FolderCopy":
        """Read a data folder. It may lose files meanwhile. Raises: OSError."""
        folders: list[str] = []
        files: list[tuple[str, bytes]] = []
        for path, entry in _entries(str(folder), ""):
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif path not in NOT_COPIED and (content := _read(entry.path)) is not None:
                files.append((path, content))
        return cls(tuple(folders), tuple(files))

    def write(self, folder: Path) -> None:
        """Write everything into an existing, empty folder. Raises: OSError."""
        root = f"{folder}{os.sep}"
        for each in self.folders:
            os.mkdir(root + each, FOLDER_MODE)
        for path, content in self.files:
            descriptor = os.open(root + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            try:
                left = memoryview(content)
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(len(content) for _, content in self.files)


def _entries(folder: str, prefix: str) -> "Iterator[tuple[str, os.DirEntry[str]]]":
    with os.scandir(folder) as found:
        entries = list(found)
    for each in entries:
        yield prefix + each.name, each
        if each.is_dir(follow_symlinks=False):
            try:
                yield from _entries(each.path, f"{prefix}{each.name}{os.sep}")
            except FileNotFoundError:  # The broker has removed the folder.
                continue


def _read(path: str) -> bytes | None:
    """Return the content of a file, or None if the broker has removed it."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        return None
