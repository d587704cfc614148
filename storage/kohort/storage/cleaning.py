"""One round of compaction over a log: which part of it, and the new segments that take the old ones' places.

A worker thread reads and writes, beside the traffic: sealed segments don't change. The log itself does the
swaps (`PartitionLog.replace_segments`). The active segment is never touched.
Source: org.apache.kafka.storage.internals.log.Cleaner, LogCleanerManager.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    ControlType,
    read_header,
    verify_crc,
)
from kohort.storage.compaction import (
    AbortedTransaction,
    BatchFilter,
    LastBatch,
    NewestOffsets,
    Transactions,
    read_marker,
)
from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.partition_log import PartitionLog
from kohort.storage.scan import iterate_batches, iterate_headers
from kohort.storage.segment import SUFFIXES, TRANSACTION_INDEX_SUFFIX, Segment, StagedBatch
from kohort.storage.swapping import CLEANED, Replacement
from kohort.storage.transaction_index import encode_entry

RUN_BYTES = 1024 * 1024
OFFSET_RANGE_MAX = 2**31 - 1

Progress = Callable[[int], None]
"""Called with the number of bytes that were read or written.

It may wait, or raise StorageError to end the round.
"""


class CleaningPlan(msgspec.Struct, frozen=True):
    """The part of a log that may be compacted: from its first dirty offset up to `end_offset`, exclusive."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The share of the part that has not been compacted."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether the log is to be compacted now."""
        return bool(
            self.dirty_bytes and (self.is_overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)
        )


def plan_cleaning(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CleaningPlan:
    """Return the part that may be compacted now; `checkpoint` is where the last round ended.

    Raises: OSError.
    """
    first_dirty = checkpoint
    if first_dirty is None or not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    sealed = segments[:-1]
    ends = [segment.base_offset for segment in segments[1:]]
    dirty = [segment for segment, end in zip(sealed, ends, strict=True) if end > first_dirty]
    bound = min(last_stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        newest_ms = now_ms - config.min_compaction_lag_ms
        young = (each.base_offset for each in dirty if each.newest_timestamp()[0] > newest_ms)
        bound = min(bound, next(young, bound))
    # The segment that holds the bound is left alone as a whole.
    end_offset = max((each.base_offset for each in segments if each.base_offset <= bound), default=0)
    return CleaningPlan(
        first_dirty,
        max(first_dirty, end_offset),
        sum(each.size_bytes for each in segments if each.base_offset < first_dirty),
        sum(each.size_bytes for each in dirty if each.base_offset < end_offset),
        _is_overdue(dirty, config, now_ms),
    )


def _is_overdue(dirty: Sequence[Segment], config: LogConfig, now_ms: int) -> bool:
    latest_ms = now_ms - config.max_compaction_lag_ms
    if latest_ms <= 0:
        return False
    return any(0 < segment.first_batch_timestamp() < latest_ms for segment in dirty)


class LogCleaning:
    """One round over one log. Its work blocks: for a worker thread."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        segments: Sequence[Segment],
        config: LogConfig,
        plan: CleaningPlan,
        *,
        last_batches: Mapping[int, LastBatch],
        now_ms: int,
        keys_max: int,
        progress: Progress,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._segments = [each for each in segments if each.base_offset < plan.end_offset]
        self._all_segments = segments
        self._config = config
        self._plan = plan
        self._last_batches = last_batches
        self._now_ms = now_ms
        self._progress = progress
        self._newest = NewestOffsets(keys_max)
        self._aborted: dict[int, AbortedTransaction] = {}  # By the offsets of their markers.
        self.end_offset = plan.first_dirty_offset
        """Where the next round starts: known after the first replacement was requested."""
        self.read_bytes = 0
        self.written_bytes = 0

    @classmethod
    def of(
        cls, log: PartitionLog, plan: CleaningPlan, *, now_ms: int, keys_max: int, progress: Progress
    ) -> "LogCleaning":
        """Return a round over `log`: called where its producers don't change concurrently."""
        return cls(
            log.file_system,
            str(log.directory),
            log.segments,
            log.config,
            plan,
            last_batches={
                producer_id: LastBatch(state.batches[-1].last_offset if state.batches else -1, state.epoch)
                for producer_id, state in log.producers.items()
            },
            now_ms=now_ms,
            keys_max=keys_max,
            progress=progress,
        )

    def replacements(self) -> Iterator[Replacement]:
        """Yield one new segment after the other; each is to be swapped in before the next is asked for.

        A failed replacement leaves no files. A group in which nothing changes has no replacement.
        Raises: StorageError.
        """
        try:
            yield from self._replacements()
        except WireError as error:
            raise StorageError(f"a batch of {self._directory} is damaged: {error}") from error
        except OSError as error:
            raise StorageError(f"{self._directory} cannot be compacted: {error}") from error

    def _replacements(self) -> Iterator[Replacement]:
        if not self._segments:
            return
        aborted = find_aborted(self._all_segments)
        self._aborted = {each.last_offset: each for each in aborted}
        self._note_keys(aborted)
        self.end_offset = self._newest.latest + 1
        keep = BatchFilter(
            self._newest,
            Transactions(aborted),
            self._last_batches,
            end_offset=self._plan.end_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
        )
        segments = [each for each in self._segments if each.base_offset < self.end_offset]
        for group in group_segments(segments, self._config, self._plan.end_offset):
            replacement = self._clean(group, keep)
            if replacement is not None:
                yield replacement

    # -- reading ----------------------------------------------------------------------------------------

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
        """Yield header and bytes of each batch, and whether it is the segment's last."""
        end, size_bytes = 0, segment.size_bytes
        for position, header, batch in iterate_batches(segment.file, 0, size_bytes):
            end = position + header.size_bytes
            verify_crc(batch)
            self._progress(header.size_bytes)
            self.read_bytes += header.size_bytes
            yield header, batch, end == size_bytes
        if end != size_bytes:
            raise StorageError(f"the segment at {segment.base_offset} of {self._directory} ends early")

    def _note_keys(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Learn the newest offset of each key from the dirty part, or as much of it as finds room."""
        start, newest = self._plan.first_dirty_offset, self._newest
        transactions = Transactions(each for each in aborted if each.last_offset >= start)
        bounds = [*(each.base_offset for each in self._segments[1:]), self._plan.end_offset]
        newest.latest = start - 1
        for segment, bound in zip(self._segments, bounds, strict=True):
            if bound <= start:
                continue
            for header, batch, _ in self._batches(segment):
                if header.last_offset < start:
                    continue
                if newest.is_full:
                    return
                if header.is_control:
                    transactions.is_spent(header, batch)
                elif not transactions.is_aborted(header):
                    newest.note(header, batch)
                newest.latest = header.last_offset
            newest.latest = bound - 1  # A gap at a segment's end is clean.

    # -- writing ----------------------------------------------------------------------------------------

    def _clean(self, group: Sequence[Segment], keep: BatchFilter) -> Replacement | None:
        cleaned = Segment(self._file_system, self._directory, group[0].base_offset, CLEANED)
        try:
            cleaned.remove()  # What an earlier round may have left.
            cleaned.create()
            is_changed = self._write(group, keep, cleaned)
            if len(group) == 1 and not is_changed:
                cleaned.remove()
                return None
            cleaned.file.sync()
            cleaned.finish()
            cleaned.close()
        except (OSError, StorageError, WireError):
            cleaned.remove()
            raise
        return Replacement(cleaned, tuple(group))

    def _write(self, group: Sequence[Segment], keep: BatchFilter, cleaned: Segment) -> bool:
        """Return whether anything was left out; the remaining batches are in the files of `cleaned`."""
        is_changed = False
        run: list[StagedBatch] = []
        run_bytes = 0
        still_aborted: list[AbortedTransaction] = []
        last = next((each for each in reversed(group) if each.size_bytes), None)
        for segment in group:
            for header, batch, ends_segment in self._batches(segment):
                # The last batch of the group shows how far the new segment reaches: an interrupted swap
                # needs it, to know which old segments it replaces.
                kept = keep.keep(header, batch, must_stay=ends_segment and segment is last)
                is_changed = is_changed or kept is not batch
                if kept is None:
                    continue
                if (
                    header.is_control
                    and header.last_offset in self._aborted
                    and read_header(kept).record_count
                ):
                    still_aborted.append(self._aborted[header.last_offset])
                run.append(_staged(kept, header))
                run_bytes += len(kept)
                if run_bytes >= RUN_BYTES:
                    self._append(cleaned, run, run_bytes)
                    run, run_bytes = [], 0
        self._append(cleaned, run, run_bytes)
        self._write_transaction_index(cleaned, still_aborted)
        return is_changed

    def _write_transaction_index(self, cleaned: Segment, entries: Sequence[AbortedTransaction]) -> None:
        """Write, beside the new segment, the aborted transactions whose markers are in it.

        Raises: OSError.
        """
        if entries:
            path = cleaned.paths[SUFFIXES.index(TRANSACTION_INDEX_SUFFIX)]
            file = self._file_system.open(path, create=True)
            file.truncate(0)
            file.write_at([b"".join(map(encode_entry, entries))], 0)
            file.sync()

    def _append(self, cleaned: Segment, run: Sequence[StagedBatch], run_bytes: int) -> None:
        if run:
            cleaned.append(run, self._config.index_interval_bytes)
            self.written_bytes += run_bytes
            self._progress(run_bytes)


def _staged(batch: Buffer, header: BatchHeader) -> StagedBatch:
    """Return the batch as a segment takes it; one without records has no part in the time index."""
    kept = read_header(batch)
    max_timestamp = kept.max_timestamp if kept.record_count else NO_TIMESTAMP
    return StagedBatch(batch, header.base_offset, header.last_offset, max_timestamp, header)


def group_segments(
    segments: Sequence[Segment], config: LogConfig, end_offset: int
) -> Iterator[list[Segment]]:
    """Yield neighbours that fit into one segment: its size, its indexes, its offsets. Raises: OSError."""
    bounds = [*(each.base_offset for each in segments[1:]), end_offset]
    group: list[Segment] = []
    sizes = [0, 0, 0]
    for segment, bound in zip(segments, bounds, strict=True):
        added = (segment.size_bytes, segment.index.size_on_disk(), segment.time_index.size_on_disk())
        together = [before + more for before, more in zip(sizes, added, strict=True)]
        if group and (
            together[0] > config.segment_bytes
            or max(together[1:]) > config.segment_index_bytes
            or bound - 1 - group[0].base_offset > OFFSET_RANGE_MAX
        ):
            yield group
            group, together = [], list(added)
        group.append(segment)
        sizes = together
    if group:
        yield group


def find_aborted(segments: Sequence[Segment]) -> list[AbortedTransaction]:
    """Return the aborted transactions that have data.

    Raises: OSError, StorageError, WireError.
    """
    begun: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    for segment in segments:
        for position, header in iterate_headers(segment.file, 0, segment.size_bytes):
            if not header.is_transactional:
                continue
            if not header.is_control:
                begun.setdefault(header.producer_id, header.base_offset)
                continue
            first_offset = begun.pop(header.producer_id, None)
            if first_offset is None or not header.record_count:
                continue
            if read_marker(segment.file.read_at(header.size_bytes, position)) is ControlType.ABORT:
                aborted.append(
                    AbortedTransaction(
                        header.producer_id,
                        first_offset,
                        header.last_offset,
                        min(begun.values(), default=header.next_offset),
                    )
                )
    return aborted
