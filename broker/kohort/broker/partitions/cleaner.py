"""Compaction beside the traffic: the dirtiest log first, read and written by a worker thread.

The new segments replace the old ones in the loop, between two writes of the log. Readers hold files,
not names, and continue. Source: org.apache.kafka.storage.internals.log.LogCleaner, LogCleanerManager.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.partitions.counters import CleaningCounters
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.table import PartitionTable
from kohort.broker.partitions.throttler import Throttler
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.workers import Workers
from kohort.storage import DataDirectory, PartitionLog, StorageError
from kohort.storage.cleaning import CleaningPlan, LogCleaning, plan_cleaning
from kohort.storage.swapping import Replacement

BYTES_PER_KEY = 200  # What a key and its offset take in a dictionary, about.

Result = TypeVar("Result")

log = structlog.get_logger("kohort.cleaner")


class Candidate(NamedTuple):
    """A compacted log, and the last stable offset of its readers."""

    partition: Partition
    log: PartitionLog
    checkpoint: int | None
    last_stable_offset: int


class LogCleaner:
    """Compacts one log at a time. All methods belong to the loop's thread."""

    def __init__(
        self,
        partitions: PartitionTable,
        data: DataDirectory,
        current: CurrentConfig,
        *,
        clock: Clock,
        counters: CleaningCounters,
        workers: Workers,
    ) -> None:
        self._partitions = partitions
        self._data = data
        self._current = current
        self._clock = clock
        self._counters = counters
        self._workers = workers
        self._thread = workers.limiter(1)
        self._uncleanable: dict[Partition, PartitionLog] = {}

    async def run(self, _part: object = None) -> None:
        """Compact dirty logs, again and again; a log that fails is logged and skipped.

        How long it works has no limit: a large log under a throttle takes hours.
        """
        while True:
            if self._current.config.log_cleaner_enable:
                while await self.clean_dirtiest():
                    pass
            await self._workers.sleep(self._current.config.log_cleaner_backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Compact the log that needs it most; return False if none does."""
        candidates = self._candidates()
        now_ms = self._clock.wall_ms()
        plans = await self._in_thread(partial(_plans, candidates, now_ms))
        self._counters.dirty_ratio_max = max((plan.dirty_ratio for _, plan in plans), default=0.0)
        due = [(candidate, plan) for candidate, plan in plans if plan.is_due(candidate.log.config)]
        if not due:
            return False
        candidate, plan = max(due, key=lambda each: each[1].dirty_ratio)
        try:
            await self._clean(candidate, plan, now_ms)
        except StorageError as error:
            self._failed(candidate, error)
        return True

    def _candidates(self) -> list[Candidate]:
        self._uncleanable = {
            partition: failed
            for partition, failed in self._uncleanable.items()
            if partition.serving_log is failed and not partition.deleted
        }
        self._counters.uncleanable = len(self._uncleanable)
        return [
            Candidate(
                partition,
                partition.log,
                self._data.records.cleaner_offset(partition.topic, partition.index),
                partition.last_stable_offset,
            )
            for partition in self._partitions
            if partition.is_in_use
            and partition.serving_log is not None
            and "compact" in partition.config.cleanup_policy
            and partition not in self._uncleanable
        ]

    async def _clean(self, candidate: Candidate, plan: CleaningPlan, now_ms: int) -> None:
        """Compact one log. Raises: StorageError."""
        partition, counters = candidate.partition, self._counters
        begin = time.monotonic()
        config = self._current.config
        throttler = self._throttler(
            config.log_cleaner_io_max_bytes_per_second, partial(self._check, candidate.log)
        )
        cleaning = LogCleaning.of(
            candidate.log,
            plan,
            now_ms=now_ms,
            keys_max=max(1, config.log_cleaner_dedupe_buffer_size // BYTES_PER_KEY),
            progress=throttler,
        )
        replacements = cleaning.replacements()
        while (replacement := await self._in_thread(lambda: next(replacements, None))) is not None:
            if not await self._swap(candidate, replacement, now_ms):
                return  # Its segments were removed otherwise: the next round checks again.
        save = partial(self._data.save_cleaner_offset, partition.topic, partition.index)
        await self._in_thread(lambda: save(cleaning.end_offset, cleaned=candidate.log))
        counters.rounds += 1
        counters.seconds += time.monotonic() - begin
        counters.read_bytes += cleaning.read_bytes
        counters.written_bytes += cleaning.written_bytes
        log.info(
            "a log was compacted",
            topic=partition.topic,
            partition=partition.index,
            end_offset=cleaning.end_offset,
            read_bytes=cleaning.read_bytes,
            written_bytes=cleaning.written_bytes,
        )

    def _throttler(self, bytes_per_second: float, check: Callable[[], None]) -> Callable[[int], None]:
        """Return a function for each read and write, which pauses to keep the rate."""
        return Throttler(bytes_per_second, check)

    def _check(self, cleaned: PartitionLog) -> None:
        """Raise if compacting the log has become useless. Raises: StorageError."""
        self._workers.check_cancelled()
        if cleaned.is_closed:
            raise StorageError(f"{cleaned.directory} was closed while it was compacted")

    async def _swap(self, candidate: Candidate, replacement: Replacement, now_ms: int) -> bool:
        """Return whether the new segment has taken its place. Raises: StorageError."""
        swapped: list[bool] = []

        def swap() -> None:
            if candidate.partition.serving_log is candidate.log and not candidate.partition.deleted:
                swapped.append(self._put_in_place(candidate.log, replacement, now_ms))
            else:  # It was reopened, or its topic is deleted: the folder may be another log's.
                replacement.cleaned.close()

        await self._partitions.between_writes(candidate.partition, swap)
        return swapped == [True]

    def _put_in_place(self, cleaned: PartitionLog, replacement: Replacement, now_ms: int) -> bool:
        """Return whether the new segment has taken its place, in the loop. Raises: StorageError."""
        return cleaned.replace_segments(replacement, now_ms)

    def _failed(self, candidate: Candidate, error: StorageError) -> None:
        partition, failed = candidate.partition, candidate.log
        if failed.is_closed or partition.deleted:
            return  # Deleted, or opened again, while it was compacted: it was for nothing.
        text = str(error)
        log.error("a log can't be compacted", topic=partition.topic, partition=partition.index, error=text)
        if failed.failure is not None:
            partition.failed(failed.failure)
        else:
            self._uncleanable[partition] = failed

    async def _in_thread(self, action: Callable[[], Result]) -> Result:
        return await self._workers.in_thread(action, limiter=self._thread)


def _plans(candidates: list[Candidate], now_ms: int) -> list[tuple[Candidate, CleaningPlan]]:
    """Return the part of each log that may be compacted; a log whose files are changing waits."""
    plans: list[tuple[Candidate, CleaningPlan]] = []
    for candidate in candidates:
        try:
            plan = plan_cleaning(
                candidate.log.segments,
                candidate.log.config,
                checkpoint=candidate.checkpoint,
                log_start_offset=candidate.log.log_start_offset,
                log_end_offset=candidate.log.log_end_offset,
                last_stable_offset=candidate.last_stable_offset,
                now_ms=now_ms,
            )
        except (OSError, StorageError) as error:
            log.warning(
                "a log cannot be checked for compaction", topic=candidate.partition.topic, error=str(error)
            )
        else:
            plans.append((candidate, plan))
    return plans
