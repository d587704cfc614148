"""Closes a data folder to the other users of the machine, and logs the result."""

from pathlib import Path

import structlog

from kohort.storage import FileSystem, StorageError

log = structlog.get_logger("kohort.broker")


def keep_private(files: FileSystem, folder: Path) -> None:
    """Make an existing folder accessible only to the user of this process. Raises: StorageError."""
    try:
        found = files.close_to_others(folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be used as a data folder: {error}") from error
    if found.reason:
        log.warning(
            "other users of this machine may read the data folder: give kohort its own, with mode 0700",
            folder=str(folder),
            reason=found.reason,
        )
    elif found.closed:
        log.info(
            "other users of this machine could read the data folder, it is closed to them now",
            folder=str(folder),
            files=found.closed,
        )
