"""The data folder besides the logs: its checkpoints, and whether it still exists."""

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.partitions.index import PartitionIndex
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers
from kohort.storage import StorageError

CHECKPOINT_MS_MAX = 60_000  # One that takes longer hangs in the disk.
FOLDER_CHECK_SECONDS = 1
FOLDER_CHECK_MS_MAX = 30_000  # A look that takes longer hangs in the disk.

log = structlog.get_logger("kohort.partition")


class DataFolder:
    """Keeps notes of all logs on the disk, and watches the folder. The loop's thread."""

    def __init__(self, partitions: PartitionIndex, files: LogFiles, workers: Workers) -> None:
        self._partitions = partitions
        self._files = files
        self._workers = workers

    async def forget_journal(self) -> None:
        """Drop the entries that a start found in the journal, except those of logs that may need them."""
        closed = [
            each
            for each in self._partitions
            if each.offline is not None or not (each.opened or self._files.is_sound(each))
        ]
        await self._workers.in_thread(self._files.forget_journal, closed)

    def was_cut(self, partition: Partition) -> None:
        """Note that a follower's log was cut on purpose. Blocks. Raises: StorageError."""
        self._files.was_cut(partition)

    async def save_log_starts(self) -> None:
        """Keep the start of every log on the disk. Raises: StorageError."""
        await self._workers.in_thread(self._files.checkpoint)

    async def note_resting_logs(self) -> None:
        """Keep on the disk which logs a start after a crash need not open. Raises: StorageError."""
        await self._workers.in_thread(self._files.note_resting_logs)

    async def checkpoint_regularly(self, current: CurrentConfig, part: Watched = UNWATCHED) -> None:
        """Keep on the disk from where each log is to be recovered after a crash, again and again."""
        while True:
            await self._workers.sleep(current.config.log_flush_offset_checkpoint_interval_ms / 1000)
            with part.working(CHECKPOINT_MS_MAX):
                await self.checkpoint()

    async def checkpoint(self) -> None:
        """Keep on the disk from where each log is to be recovered after a crash; failures are logged."""
        try:
            await self.save_log_starts()
            await self.note_resting_logs()
        except StorageError as error:
            log.error("the checkpoint of the logs failed", error=str(error))

    async def watch_regularly(self, part: Watched = UNWATCHED) -> None:
        """Take every partition offline if the data folder is missing: records written now would be lost."""
        while True:
            await self._workers.sleep(FOLDER_CHECK_SECONDS)
            with part.working(FOLDER_CHECK_MS_MAX):
                await self.watch()

    async def watch(self) -> None:
        """Look once whether the data folder is still there."""
        try:
            await self._workers.in_thread(self._files.check_present)
        except StorageError as error:
            log.critical("the data folder is gone; nothing is acknowledged any more", error=str(error))
            for partition in self._partitions:
                if partition.opened:  # The others fail when they are opened, for the same reason.
                    partition.failed(error)
