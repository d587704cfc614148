"""The data folder: how a broker takes it, and how it leaves it."""

from base64 import urlsafe_b64encode
from functools import partial
from pathlib import Path
from uuid import uuid4

from kohort.broker.runtime.descriptors import segments_that_fit
from kohort.broker.runtime.private_folder import keep_private
from kohort.broker.runtime.workers import Workers
from kohort.storage import DataDirectory, FileSystem
from kohort.storage.journal import Journal

CLOSERS = 8  # Logs that are closed at once: their syncs share what the disk does.


def open_folder(path: Path, files: FileSystem) -> DataDirectory:
    """Return the data folder, locked, and closed to other users. Raises: StorageError."""
    keep_private(files, path)
    return DataDirectory.open(path, files, segments_max=segments_that_fit())


def close_files(data: DataDirectory, journal: Journal, workers: Workers) -> None:
    """Close every log, and then the journal: until a log is synced, some records are in the journal alone.

    Raises: StorageError if a log failed; the journal is kept for the next start.
    """
    data.close(when_sound=journal.close, close_all=partial(workers.map, CLOSERS))


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: a UUID as 22 characters of base64."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
