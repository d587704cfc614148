"""The free space of the disk with the data folder: checked every few seconds, in a thread."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers

CHECK_SECONDS = 5.0
LOOK_MS_MAX = 30_000  # A look that takes longer hangs in the disk.
MARGIN = 1.1  # So much more than the least must be free again: at the limit itself it would flap.

log = structlog.get_logger("kohort.disk")


class Usage(Protocol):
    """What `shutil.disk_usage` returns of a disk."""

    @property
    def total(self) -> int:
        """Bytes of the whole disk."""
        ...

    @property
    def free(self) -> int:
        """Bytes that this process may still write."""
        ...


class DiskSpace:
    """The room as of the last look, and whether it is too little. The loop's thread only."""

    def __init__(
        self,
        path: Path,
        free_bytes_min: Callable[[], int],
        workers: Workers,
        usage: Callable[[Path], Usage] = shutil.disk_usage,
    ) -> None:
        """`free_bytes_min` returns how much has to be free for the disk not to count as full."""
        self.free_bytes: int | None = None
        self.total_bytes: int | None = None
        self._path = path
        self._free_bytes_min = free_bytes_min
        self._workers = workers
        self._usage = usage
        self._problem: str | None = None

    def reason(self) -> str | None:
        """Return why the broker is not ready for the disk's sake, or None while there is room."""
        return self._problem

    async def run(self, part: Watched = UNWATCHED) -> None:
        """Look again and again, until cancelled."""
        while True:
            with part.working(LOOK_MS_MAX):
                await self.look()
            await self._workers.sleep(CHECK_SECONDS)

    async def look(self) -> None:
        """Look once; one line is logged when the disk gets full, and one when it has room again."""
        try:
            usage = await self._workers.in_thread(self._usage, self._path)
        except OSError as error:
            self._judge(f"the data folder cannot be looked at: {error.strerror}", None)
            return
        self.free_bytes, self.total_bytes = usage.free, usage.total
        least = self._free_bytes_min() * (1.0 if self._problem is None else MARGIN)
        is_full = usage.free < least
        self._judge(
            f"the disk is full: {usage.free} bytes are free, kohort.disk.free.bytes.min is "
            f"{self._free_bytes_min()}"
            if is_full
            else None,
            usage.free,
        )

    def _judge(self, problem: str | None, free_bytes: int | None) -> None:
        if problem is not None and self._problem is None:
            log.error("the disk is almost full", reason=problem, data=str(self._path))
        elif problem is None and self._problem is not None:
            log.info("the disk has room again", free_bytes=free_bytes, data=str(self._path))
        self._problem = problem
