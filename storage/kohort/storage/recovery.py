"""Opening a log: the files on the disk become segments, leader epochs and producers again.

After a clean shutdown only the tail after the last index entry is read. Otherwise the segment
that contains the recovery point and all later ones are scanned: the longest valid prefix stays, the rest
is truncated or removed, and the indexes are rebuilt.
Source: org.apache.kafka.storage.internals.log.LogLoader.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kohort.protocol.records import BatchHeader
from kohort.storage.compaction import AbortedTransaction
from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import LEADER_EPOCH_CHECKPOINT, keep_newest
from kohort.storage.leader_epochs import LeaderEpochs
from kohort.storage.open_files import OpenSegments
from kohort.storage.producers import SNAPSHOT_SUFFIX, EndedTransaction, ProducerStateTable
from kohort.storage.recovery_point import RECOVERY_POINT, RecoveryPoint
from kohort.storage.scan import iterate_headers
from kohort.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
)
from kohort.storage.swapping import DELETED, finish_swaps
from kohort.storage.transaction_index import AbortedTransactions, TransactionIndexFiles

_OFFSET_DIGITS = 20


class Writers(msgspec.Struct):
    """The writers of a log, as of its end: its producers, and which of their transactions were aborted."""

    producers: ProducerStateTable
    snapshot_offset: int
    """The end offset of the snapshot from which the table was loaded."""
    aborted: AbortedTransactions


class LoadedLog(msgspec.Struct):
    """The loaded log; `truncated_bytes` of a torn tail and `removed_segments` are for the log message."""

    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochs
    writers: "Writers"
    truncated_bytes: int = 0
    removed_segments: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    """Where sealed segments lack records, from one offset up to another."""
    point: RecoveryPoint | None = None
    """How much of the newest segment is known to be on the disk."""


class LogLoader:
    """Loads one folder, once."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        config: LogConfig,
        open_segments: OpenSegments | None = None,
        before_cut: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_cut = before_cut
        self._open_segments = open_segments
        self._file_system = file_system
        self._directory = directory
        self._config = config
        self._truncated_bytes = 0
        self._gaps: list[tuple[int, int]] = []
        self._removed_segments = 0
        self._recovered_from: int | None = None  # Everything before was not scanned.
        self._scanned: list[BatchHeader] = []  # What recovery saw of idempotent producers.

    def load(self, *, clean: bool, recovery_point: int, log_start_offset: int) -> LoadedLog:
        """Return the log. Raises: OSError, StorageError."""
        names = self._file_system.list_directory(self._directory) or []
        if finish_swaps(self._file_system, self._directory, names):
            names = self._file_system.list_directory(self._directory) or []
        segments = [self._segment(base) for base in segment_offsets(names, LOG_SUFFIX)]
        self._remove_orphans(names, {segment.base_offset for segment in segments})
        epochs = LeaderEpochs.decode(self._read(LEADER_EPOCH_CHECKPOINT))
        point = self._recovery_point(names, segments) if epochs is not None else None
        if epochs is None:
            epochs = LeaderEpochs()
            if any(segment.file.size() for segment in segments):
                clean, recovery_point = False, 0  # The batches contain their epochs.
        if not segments:
            segments = self._begin_at(log_start_offset)
        log_end_offset = self._load_clean(segments, names) if clean else None
        if log_end_offset is None:
            self._before_cut()
            log_end_offset = self._recover(segments, names, recovery_point, epochs, point)
        if log_end_offset < log_start_offset:
            segments, log_end_offset = self._start_over(segments, log_start_offset), log_start_offset
        point = self._kept_recovery_point(names, point, segments[-1])
        for segment in segments[:-1]:
            segment.seal()
        epochs.truncate_from(log_end_offset)
        writers = self.load_writers(segments, log_end_offset)
        return LoadedLog(
            tuple(segments),
            max(log_start_offset, segments[0].base_offset),
            log_end_offset,
            epochs,
            writers,
            self._truncated_bytes,
            self._removed_segments,
            tuple(self._gaps),
            point,
        )

    def _recovery_point(self, names: list[str], segments: list[Segment]) -> RecoveryPoint | None:
        """Return the recovery point of the newest segment, if its files confirm it."""
        point = RecoveryPoint.decode(self._read(RECOVERY_POINT)) if RECOVERY_POINT in names else None
        return point if point is not None and segments and segments[-1].matches(point) else None

    def _kept_recovery_point(
        self, names: list[str], point: RecoveryPoint | None, newest: Segment
    ) -> RecoveryPoint | None:
        """Return the point if it still holds.

        An invalid one is removed before the file could match it again.
        """
        if (
            point is not None
            and point.base_offset == newest.base_offset
            and newest.size_bytes >= point.size_bytes
        ):
            return point
        if RECOVERY_POINT in names:
            self._file_system.remove(f"{self._directory}/{RECOVERY_POINT}")
            self._file_system.sync_directory(self._directory)
        return None

    def _read(self, name: str) -> bytes | None:
        return self._file_system.read(f"{self._directory}/{name}")

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self._file_system, self._directory, base_offset, open_segments=self._open_segments)

    def _new_segment(self, base_offset: int) -> Segment:
        segment = self._segment(base_offset)
        segment.create()
        self._file_system.sync_directory(self._directory)
        return segment

    def _remove_orphans(self, names: list[str], base_offsets: set[int]) -> None:
        """Remove indexes without a log, and incomplete files of a crash."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            for offset in segment_offsets(names, suffix):
                if offset not in base_offsets:
                    self._file_system.remove(f"{self._directory}/{file_name(offset, suffix)}")
        for name in names:
            if name.endswith((DELETED, ".tmp")):
                self._file_system.remove(f"{self._directory}/{name}")

    def _load_inactive(self, segments: list[Segment], next_bases: list[int], names: list[str]) -> None:
        """Take sealed segments without a scan; one without its indexes is scanned to rebuild them.

        A truncated one keeps its whole batches: readers would wait for the rest of the last one.
        """
        for segment, next_base in zip(segments, next_bases, strict=True):
            segment.load()
            wanted = {file_name(segment.base_offset, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
            has_indexes = not segment.size_bytes or wanted.issubset(names)
            end_offset = segment.sealed_end() if has_indexes else None
            is_cut = end_offset is None
            if end_offset is None:
                file_bytes = segment.size_bytes
                end_offset = segment.recover(self._config.index_interval_bytes).next_offset
                is_cut = segment.size_bytes < file_bytes
            # A compacted segment may end anywhere.
            if end_offset < next_base and (is_cut or not self._config.is_compacted):
                self._gaps.append((end_offset, next_base))

    def _load_clean(self, segments: list[Segment], names: list[str]) -> int | None:
        """Return the log end offset, None when the files are not as a clean shutdown leaves them."""
        try:
            self._load_inactive(segments[:-1], [each.base_offset for each in segments[1:]], names)
            return segments[-1].load_tail()
        except StorageError:
            return None

    def _recover(
        self,
        segments: list[Segment],
        names: list[str],
        recovery_point: int,
        epochs: LeaderEpochs,
        point: RecoveryPoint | None,
    ) -> int:
        """Return the log end offset.

        `segments` keeps the remaining ones, `epochs` learns the epochs of their batches.
        With `point` only the newest segment is scanned, from there: earlier segments were synced
        when it was started.
        """
        first = max(
            (place for place, each in enumerate(segments) if each.base_offset <= recovery_point), default=0
        )
        if point is not None:
            first = len(segments) - 1
        next_bases = [each.base_offset for each in segments[1 : first + 1]]
        self._load_inactive(segments[:first], next_bases, names)
        next_offset = scanned_from = segments[first].base_offset if point is None else point.offset
        epochs.truncate_from(next_offset)
        for place in range(first, len(segments)):
            segment = segments[place]
            file_bytes = segment.file.size()
            prefix = segment.recover(self._config.index_interval_bytes, point)
            for epoch, start_offset in prefix.epochs:
                epochs.assign(epoch, start_offset)
            self._scanned += prefix.produced()
            next_offset = prefix.next_offset
            if segment.size_bytes < file_bytes:
                self._truncated_bytes += file_bytes - segment.size_bytes
                self._remove(segments, place + 1)
                break
        self._recovered_from = scanned_from
        return next_offset

    def _remove(self, segments: list[Segment], place: int) -> None:
        """Remove the segments from `place`: after a torn batch nothing counts."""
        for segment in segments[place:]:
            segment.remove()
            self._removed_segments += 1
        del segments[place:]
        self._file_system.sync_directory(self._directory)

    def _start_over(self, segments: list[Segment], log_start_offset: int) -> list[Segment]:
        """Return one empty segment: everything left is before the log's start."""
        self._remove(segments, 0)
        return self._begin_at(log_start_offset)

    def _begin_at(self, log_start_offset: int) -> list[Segment]:
        """Return one empty segment. Transactions open in the removed part are dropped."""
        keep_newest(self._file_system, self._directory, SNAPSHOT_SUFFIX, count=0)
        return [self._new_segment(log_start_offset)]

    def load_writers(self, segments: Sequence[Segment], log_end_offset: int) -> Writers:
        """Return the state of the newest snapshot with the batches after it.

        Raises: OSError, StorageError.
        """
        names = self._file_system.list_directory(self._directory) or []
        table, snapshot_offset = ProducerStateTable(), segments[0].base_offset
        for offset in reversed(segment_offsets(names, SNAPSHOT_SUFFIX)):
            path = f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
            content = self._file_system.read(path) if offset <= log_end_offset else None
            found = ProducerStateTable.decode_snapshot(content)
            if found is not None:
                table, snapshot_offset = found, offset
                break
            self._file_system.remove(path)
        ended: list[EndedTransaction] = []
        has_open = table.first_open_offset is not None
        for header, batch in self._batches_from(segments, snapshot_offset, log_end_offset, whole=has_open):
            if (transaction := table.append(header, header.base_offset, batch)) is not None:
                ended.append(transaction)
        aborted = TransactionIndexFiles(self._file_system, self._directory).load(
            segments,
            names,
            known_up_to=snapshot_offset,
            log_end_offset=log_end_offset,
            seen=[as_aborted(each) for each in ended if each.is_aborted],
        )
        return Writers(table, snapshot_offset, aborted)

    def _batches_from(
        self, segments: Sequence[Segment], offset: int, log_end_offset: int, *, whole: bool
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the headers of the batches from `offset` on that may concern a producer; markers whole.

        A scanned segment has everything from its start. If `offset` is inside one and
        a transaction is open there, `whole` reads it again: its end may not have been kept.
        """
        read_up_to = offset
        scanned_from = log_end_offset if self._recovered_from is None else self._recovered_from
        for place, segment in enumerate(segments):
            end = segments[place + 1].base_offset if place + 1 < len(segments) else log_end_offset
            is_scanned = segment.base_offset >= scanned_from
            if end <= offset or (is_scanned and not (whole and segment.base_offset < offset)):
                continue
            read_up_to = end
            position = segment.position_of(offset, segment.size_bytes)
            for place_in_file, header in iterate_headers(segment.file, position, segment.size_bytes):
                marker = segment.file.read_at(header.size_bytes, place_in_file) if header.is_control else b""
                yield header, marker
        for header in self._scanned:
            if header.base_offset >= read_up_to:
                yield header, _read_again(segments, header) if header.is_control else b""


def _read_again(segments: Sequence[Segment], header: BatchHeader) -> bytes:
    """Return a batch that was seen in one of the segments. Raises: OSError, StorageError."""
    segment = [each for each in segments if each.base_offset <= header.base_offset][-1]
    position = segment.position_of(header.last_offset, segment.size_bytes)
    return segment.file.read_at(header.size_bytes, position)


def as_aborted(ended: EndedTransaction) -> AbortedTransaction:
    """Return the index entry of an aborted transaction."""
    return AbortedTransaction(
        ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
    )


def segment_offsets(names: list[str], suffix: str) -> list[int]:
    """Return the offsets in the names of one kind of file, in order."""
    stems = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == _OFFSET_DIGITS and stem.isdecimal())
