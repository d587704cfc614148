"""Where followed logs begin, kept on the disk beside the fetching: many starts by one checkpoint.

The leader is told a log start after it is on the disk: an answered DeleteRecords holds after a crash of
any replica. Until then a fetch has the previous start.
"""

from collections.abc import Awaitable, Callable

import structlog
import trio

from kohort.broker.partitions import Partition
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.storage import StorageError

SAVE_MS_MAX = 60_000
RETRY_SECONDS = 1.0

log = structlog.get_logger("kohort.replication")


class LogStarts:
    """The starts that are not on the disk yet. The loop's thread only; `keep` has to run."""

    def __init__(self, save: Callable[[], Awaitable[None]]) -> None:
        """`save` keeps where all logs begin on the disk. Raises: StorageError."""
        self._save = save
        self._unsaved_starts: dict[Partition, int] = {}
        self._moved: dict[Partition, Callable[[], None]] = {}  # Since the last save began.
        self._more = trio.Event()
        self._ended = trio.Event()

    def moved(self, partition: Partition, before: int, saved: Callable[[], None]) -> None:
        """Save the start of a log that was at `before` until now; `saved` is called then."""
        self._unsaved_starts.setdefault(partition, before)
        self._moved[partition] = saved
        self._more.set()

    def reported_start(self, partition: Partition) -> int | None:
        """Return the start to report to the leader meanwhile; None if that of the log is saved."""
        return self._unsaved_starts.get(partition)

    async def until_saved(self, partitions: list[Partition], seconds: float) -> None:
        """Return once these are saved, or after that time."""
        with trio.move_on_after(seconds):
            while not self._unsaved_starts.keys().isdisjoint(partitions):
                await self._ended.wait()

    async def keep(self, part: Watched = UNWATCHED) -> None:
        """Save moved starts, again and again, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            with part.working(SAVE_MS_MAX):
                try:
                    await self._save_moved()
                except StorageError as error:
                    log.error(
                        "the starts of followed logs could not be saved",
                        logs=len(self._moved),
                        error=str(error),
                    )
                    await trio.sleep(RETRY_SECONDS)

    async def _save_moved(self) -> None:
        """Save all moved starts; the others stay pending. Raises: StorageError."""
        taken, self._moved = self._moved, {}
        try:
            await self._save()
        except BaseException:  # A bug and a cancellation as well: `keep` is started again.
            self._moved = {**taken, **self._moved}
            self._more.set()
            raise
        for partition, saved in taken.items():
            if partition not in self._moved:
                del self._unsaved_starts[partition]
                saved()
        ended, self._ended = self._ended, trio.Event()
        ended.set()
