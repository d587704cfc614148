"""A progress bar for long inputs."""

import os
import stat
from types import TracebackType
from typing import BinaryIO, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

LINES_PER_UPDATE = 1_000


class LineProgress:
    """Shows lines and bytes read, and for a file how much is left."""

    def __init__(self, source: BinaryIO) -> None:
        status = os.fstat(source.fileno())
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
        self._progress = Progress(
            TextColumn("{task.fields[lines]:,} lines"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=total, lines=0)
        self._lines = self._bytes = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, line_bytes: int) -> None:
        """Count one more line."""
        self._lines += 1
        self._bytes += line_bytes
        if self._lines % LINES_PER_UPDATE == 0:
            self._progress.update(self._task, completed=self._bytes, lines=self._lines)
