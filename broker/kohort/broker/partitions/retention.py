"""Removes old data: old segments, the files of deleted segments, idle producers.

Source: org.apache.kafka.storage.internals.log.LogManager.cleanupLogs, UnifiedLog.
"""

from functools import partial

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.partitions.counters import CleaningCounters
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.table import PartitionTable
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers
from kohort.storage import PartitionLog, StorageError

FILES_CHECK_SECONDS = 5
ROUND_MS_MAX = 600_000  # A round through all logs that takes longer hangs in one of them.

log = structlog.get_logger("kohort.retention")


class LogRetention:
    """Looks at every log from time to time. All methods belong to the loop's thread."""

    def __init__(
        self,
        partitions: PartitionTable,
        current: CurrentConfig,
        *,
        clock: Clock,
        counters: CleaningCounters,
        workers: Workers,
    ) -> None:
        self._partitions = partitions
        self._current = current
        self._clock = clock
        self._counters = counters
        self._workers = workers
        self._thread = workers.limiter(1)

    async def delete_segments_regularly(self, part: Watched = UNWATCHED) -> None:
        """Delete old segments, again and again, for as long as the broker runs."""
        await self._workers.sleep(self._current.config.log_initial_task_delay_ms / 1000)
        while True:
            with part.working(ROUND_MS_MAX):
                await self.delete_old_segments()
            await self._workers.sleep(self._current.config.log_retention_check_interval_ms / 1000)

    async def remove_files_regularly(self, part: Watched = UNWATCHED) -> None:
        """Remove the files of segments that went, again and again."""
        while True:
            await self._workers.sleep(FILES_CHECK_SECONDS)
            with part.working(ROUND_MS_MAX):
                await self.remove_files()

    async def expire_producers_regularly(self, part: Watched = UNWATCHED) -> None:
        """Forget idle producers, again and again."""
        while True:
            await self._workers.sleep(self._current.config.producer_id_expiration_check_interval_ms / 1000)
            with part.working(ROUND_MS_MAX):
                await self.expire_producers()

    # -- segments ---------------------------------------------------------------------------------------

    async def delete_old_segments(self) -> int:
        """Return how many segments of all logs went.

        Unopened logs are opened for it, also those without old data: only open
        logs are compacted and have metrics, and requests check for unopened logs until all are open.
        """
        count = 0
        for partition in list(self._partitions):
            try:
                if not partition.deleted and partition.error_code is None:
                    count += await self._delete_old_segments_of(partition)
            except StorageError as error:
                self._failed(partition, error)
        self._counters.deleted_segments += count
        return count

    async def _delete_old_segments_of(self, partition: Partition) -> int:
        """Return how many segments went. Raises: StorageError."""
        opened = partition.serving_log
        if opened is None:
            opened = (await self._partitions.opened(partition.topic, partition.index)).log
        high_watermark, now_ms = partition.high_watermark, self._clock.wall_ms()
        look = partial(opened.has_old_segments, high_watermark, now_ms)
        if not await self._workers.in_thread(look, limiter=self._thread):
            return 0
        counts: list[int] = []

        def delete() -> None:
            if partition.serving_log is opened:
                counts.append(opened.delete_old_segments(high_watermark, now_ms))

        await self._partitions.between_writes(partition, delete)
        count = sum(counts)
        log.info(
            "old segments were deleted",
            topic=partition.topic,
            partition=partition.index,
            segments=count,
            log_start_offset=opened.log_start_offset,
        )
        return count

    # -- files ------------------------------------------------------------------------------------------

    async def remove_files(self) -> None:
        """Remove the files of segments that went long enough ago."""
        now_ms = self._clock.wall_ms()
        for partition in list(self._partitions):
            serving_log = partition.serving_log
            if serving_log is not None and serving_log.has_deleted_files:
                remove = partial(serving_log.remove_deleted_files, now_ms)
                try:
                    await self._workers.in_thread(remove, limiter=self._thread)
                except StorageError as error:
                    self._failed(partition, error)

    # -- producers --------------------------------------------------------------------------------------

    async def expire_producers(self) -> int:
        """Return how many idempotent producers were forgotten, because they wrote nothing for long."""
        expiration_ms = self._current.config.producer_id_expiration_ms
        now_ms = self._clock.wall_ms()
        count = 0
        for partition in list(self._partitions):
            serving_log = partition.serving_log
            if serving_log is None or not serving_log.producers.has_expired(now_ms, expiration_ms):
                continue
            try:
                count += await self._expire_producers_of(partition, serving_log, now_ms, expiration_ms)
            except StorageError as error:
                self._failed(partition, error)
        self._counters.expired_producers += count
        return count

    async def _expire_producers_of(
        self, partition: Partition, opened: PartitionLog, now_ms: int, expiration_ms: int
    ) -> int:
        counts: list[int] = []

        def expire() -> None:
            counts.append(opened.expire_producers(now_ms, expiration_ms))

        await self._partitions.between_writes(partition, expire)
        return sum(counts)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        log.error(
            "the retention of a log failed",
            topic=partition.topic,
            partition=partition.index,
            error=str(error),
        )
        serving_log = partition.serving_log
        if serving_log is not None and serving_log.failure is not None:
            partition.failed(serving_log.failure)
