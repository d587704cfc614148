"""A data folder that goes when the broker does: in memory where there is room, and never synced."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.storage import FileSystem
from kohort.storage.data_directory import LOCK
from kohort.storage.journal import JOURNAL_FILE
from kohort.storage.unsynced import UnsyncedFileSystem

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 256 * 1024 * 1024  # A container often has 64 MB of it, which some tests would fill.

NOT_COPIED = frozenset({LOCK, JOURNAL_FILE})
"""Files that a copy of such a folder leaves out. The journal repeats batches that the logs have."""


@contextmanager
def throw_away_folder() -> Iterator[Path]:
    """Yield a new folder, which is removed behind the block with all that is in it. Raises: OSError."""
    folder = Path(tempfile.mkdtemp(prefix="kohort-ephemeral-", dir=best_place()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def best_place() -> Path | None:
    """Return the folder in memory if there is one with room, else None: the system's for temporary files."""
    try:
        is_large = shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
    except OSError:
        return None
    return MEMORY if is_large and os.access(MEMORY, os.W_OK) else None


def file_system() -> FileSystem:
    """Return the file system for such a folder: nothing in it is synced."""
    return UnsyncedFileSystem()
