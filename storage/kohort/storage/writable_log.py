"""The end of a partition's log: batches are staged in memory, and written by a worker thread.

The loop's thread takes the staged batches as a value; `write_staged` writes exactly these, and may do so in a
worker thread while the loop stages more. There is never a second write while one runs. Readers see
written batches, never staged ones. A failed write or sync is final: the log refuses appends until it is
closed and opened again from the content of the disk.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from kohort.protocol.records import BatchHeader
from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import LEADER_EPOCH_CHECKPOINT, keep_newest, log_id_of, name_folder
from kohort.storage.operating_system import Buffer
from kohort.storage.producers import SNAPSHOT_SUFFIX, EndedTransaction
from kohort.storage.readable_log import ReadableLog
from kohort.storage.reading import Tail
from kohort.storage.recovery import LoadedLog, Writers, as_aborted
from kohort.storage.recovery_point import RECOVERY_POINT
from kohort.storage.rewriting import write_again
from kohort.storage.segment import Segment, StagedBatch, file_name
from kohort.storage.staging import Staged, replicated_batches, staged_batch
from kohort.storage.transaction_index import TransactionIndexFiles

RECOVERY_STEP_BYTES = 64 * 1024 * 1024
"""So many bytes of a segment are synced between two recovery points: as many are read after a crash."""
_NOTHING = Staged((), 0, 0)


class WritableLog(ReadableLog):
    """A log that batches are added to, up to `log_end_offset`."""

    def __init__(
        self, file_system: FileSystem, directory: Path, topic_id: UUID, config: LogConfig, loaded: LoadedLog
    ) -> None:
        active = loaded.segments[-1]
        tail = Tail(loaded.log_end_offset, active, active.size_bytes)
        super().__init__(directory, loaded.segments, tail, loaded.log_start_offset)
        self.topic_id = topic_id
        self.log_id = log_id_of(topic_id, int(directory.name.rpartition("-")[2]))
        self.config = config
        self.log_end_offset = loaded.log_end_offset  # Counts staged batches.
        self.flushed_offset = loaded.log_end_offset  # Everything before is on the disk, here or in a journal.
        self.synced_offset = loaded.log_end_offset  # Everything before is on the disk in this log's files.
        self.file_system = file_system
        self._path = str(directory)
        self._epochs = loaded.epochs
        self._transaction_indexes = TransactionIndexFiles(file_system, self._path)
        self._take_writers(loaded.writers)
        self._staged: list[StagedBatch] = []
        self.staged_bytes = 0  # Batches that are staged and not yet taken.
        self._synced_bytes = active.size_bytes
        self._point = loaded.point
        self._failure: StorageError | None = None
        self._has_sync_failed = False
        self._is_closed = False
        self._is_settled = False  # Whether its files have exactly the bytes that are known to be on the disk.
        self._is_being_cut = False
        self.may_rest = True
        """Whether it may be noted as at rest at all."""
        self._is_named = False  # Whether the folder is known to contain its owner, on the disk.
        self._began_empty = not loaded.log_end_offset

    def _take_writers(self, writers: Writers) -> None:
        """Continue from the loaded state."""
        self.producers = writers.producers
        self._written_producers = writers.producers.copy()  # `producers` is ahead by the staged batches.
        self._snapshot_offset = writers.snapshot_offset
        self.aborted_transactions = writers.aborted
        self._may_lack_markers = self.config.is_compacted
        self._ended: deque[EndedTransaction] = deque()  # Whose markers may not be committed yet.

    @property
    def is_closed(self) -> bool:
        """Whether the log refuses reads and writes."""
        return self._is_closed

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch, -1 if there is none."""
        return self._epochs.latest

    @property
    def recovery_point(self) -> int:
        """From where an unclean start must scan: batches and indexes before it are on the disk."""
        return self.flushed_offset if self._is_closed else self._segments[-1].base_offset

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing waits to be written, and nothing is known against the files. Any thread may ask."""
        if not self.may_rest or self._failure is not None or self._is_closed or self._is_being_cut:
            return False
        return self.log_end_offset == self.written_offset

    @property
    def failure(self) -> StorageError | None:
        """Why the log refuses appends, None while it accepts them."""
        return self._failure

    def stage(
        self,
        records: Buffer,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        *,
        append_time_ms: int | None = None,
    ) -> int:
        """Return the offset of the first record; `headers` are those of the batches in `records`.

        With `append_time_ms` it becomes every record's timestamp. The bytes are copied: offset, epoch
        and timestamp are set in the copy. No I/O. Raises: StorageError when the log has failed.
        """
        if self._failure is not None or self._is_closed:
            self._check_usable()
        first_offset = offset = self.log_end_offset
        known_epochs = self._epochs.entries
        if not known_epochs or leader_epoch > known_epochs[-1][0]:
            self._epochs.assign(leader_epoch, offset)
        position = 0
        for header in headers:
            if len(headers) == 1:
                data, size = records, len(records)
            else:
                size = header.size_bytes
                data = records[position : position + size]
                position += size
            batch = staged_batch(data, header, offset, leader_epoch, append_time_ms)
            if header.producer_id >= 0:
                self._note_producer(header, offset, data)
            self._staged.append(batch)
            self.staged_bytes += size
            offset = batch.last_offset + 1
        self.log_end_offset = offset
        return first_offset

    def stage_replicated(self, records: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Stage batches of a leader's log byte for byte: offsets, epochs and times are the leader's.

        They follow the log's end; where the leader has compacted, offsets between them are missing. No I/O.
        Raises: StorageError if the log has failed, or a batch is before this log's end.
        """
        self._check_usable()
        batches = replicated_batches(records, headers, self.log_end_offset)
        for batch in batches:
            self._epochs.assign(batch.header.partition_leader_epoch, batch.base_offset)
            self._note_producer(batch.header, batch.base_offset, batch.data)
            self.staged_bytes += len(batch.data)
            self.log_end_offset = batch.last_offset + 1
        self._staged += batches

    def _note_producer(self, header: BatchHeader, offset: int, data: Buffer) -> None:
        ended = self.producers.append(header, offset, data)
        if ended is not None:
            self._ended.append(ended)

    @property
    def has_transactions(self) -> bool:
        """Whether one is open, or was when `last_stable_offset` was asked last."""
        return bool(self._ended) or self.producers.first_open_offset is not None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return where the first transaction not ended before `high_watermark` starts, otherwise that.

        The loop's thread only; `high_watermark` never goes back.
        """
        ended = self._ended
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()
        offset = high_watermark
        first_open = self.producers.first_open_offset
        if first_open is not None:
            offset = min(offset, first_open)
        for each in ended:
            offset = min(offset, each.first_offset)
        return max(offset, min(self.log_start_offset, high_watermark))

    def take_staged(self) -> Staged:
        """Return the staged batches; the caller has them written before anything else of this log."""
        taken = Staged(self._staged, self.log_end_offset, self.staged_bytes)
        self._staged, self.staged_bytes = [], 0
        return taken

    @property
    def is_durable(self) -> bool:
        """Whether everything written is on the disk, here or in a journal, and the owner of the folder too.

        A journal contains the owner of its batches. While it alone has them all, from the first one, a folder
        that a crash leaves without its topic id has lost nothing.
        """
        is_known = self._is_named or self._began_empty
        return is_known and self.flushed_offset == self._tail.written_offset

    @property
    def needs_journal(self) -> bool:
        """Whether something of this log is on the disk in a journal alone."""
        return self.flushed_offset > self.synced_offset

    @property
    def unsynced_bytes(self) -> int:
        """About how much of the newest segment is written and not synced."""
        return self._tail.size_bytes - self._synced_bytes

    def became_durable(self, end_offset: int) -> None:
        """Note that everything below `end_offset` is on the disk, although not in this log's files."""
        assert self.flushed_offset <= end_offset <= self._tail.written_offset, (
            self.flushed_offset,
            end_offset,
        )
        self.flushed_offset = end_offset

    def write(self, sync: bool) -> None:
        """Write the staged batches, as `write_staged`."""
        self.write_staged(self.take_staged(), sync=sync)

    def sync(self) -> None:
        """Return when all that is written is on the disk. Blocking. Raises: StorageError."""
        self.write_staged(_NOTHING, sync=True)

    def write_staged(self, staged: Staged, *, sync: bool) -> None:
        """Write the taken batches; with `sync` return when they, and everything before, are on the disk.

        Blocking: for a worker thread. Raises: StorageError, after which the log refuses appends.
        """
        if self._failure is not None or self._is_closed:
            self._check_usable()
        try:
            if self._epochs.is_changed:
                self._save_epochs(sync=False)
            if staged.batches:
                self._write_batches(staged.batches)
            if sync and self.synced_offset != self._tail.written_offset:
                self._sync()
        except OSError as error:
            raise self._fail(f"{self.directory} failed and takes no more appends: {error}") from error

    def rolls_with(self, staged: Staged) -> bool:
        """Whether the taken batches seem to start a new segment, which needs several syncs.

        No I/O: the indexes, which may be full too, are not checked.
        """
        config, segment = self.config, self._segments[-1]
        if not staged.batches or not segment.size_bytes:
            return False
        age_ms = staged.batches[-1].max_timestamp - segment.first_timestamp
        is_large = segment.size_bytes + staged.size_bytes > config.segment_bytes
        return is_large or age_ms > segment.roll_ms(config)

    def _write_batches(self, batches: Sequence[StagedBatch]) -> None:
        """Write the batches in runs, a new run with each new segment. Raises: OSError."""
        config, segment = self.config, self._segments[-1]
        if len(batches) == 1 and segment.size_bytes and not segment.must_roll_before(batches[0], 0, config):
            self._write_run(segment, batches)
            return
        run: list[StagedBatch] = []
        run_bytes = 0
        for batch in batches:
            if segment.must_roll_before(batch, run_bytes, config):
                self._write_run(segment, run)
                segment = self._roll(batch.base_offset)
                run, run_bytes = [], 0
            if not segment.size_bytes and not run:
                segment.first_timestamp = batch.max_timestamp
            run.append(batch)
            run_bytes += len(batch.data)
        self._write_run(segment, run)

    def _write_run(self, segment: Segment, run: Sequence[StagedBatch]) -> None:
        if not run:
            return
        segment.append(run, self.config.index_interval_bytes)
        for batch in run:
            if batch.header.producer_id >= 0:
                self._note_written(segment, batch)
        self._tail = Tail(run[-1].last_offset + 1, segment, segment.size_bytes)

    def _note_written(self, segment: Segment, batch: StagedBatch) -> None:
        ended = self._written_producers.append(batch.header, batch.base_offset, batch.data)
        if ended is not None and ended.is_aborted:
            entry = as_aborted(ended)
            self._transaction_indexes.append(segment.base_offset, entry)
            self.aborted_transactions.add(entry)

    def _roll(self, base_offset: int) -> Segment:
        """Return a new active segment; all before it, indexes too, is on the disk. Raises: OSError."""
        if self.synced_offset != self._tail.written_offset:
            self._sync()
        self._segments[-1].finish()
        self._save_epochs(sync=True)
        self._save_snapshot(base_offset)
        self._forget_point(sync=False)
        segment = self._segments[-1].sibling(base_offset)
        segment.create()
        self.file_system.sync_directory(self._path)
        for older in self._segments:
            older.seal()  # Reopened by readers, and released again when the log has grown.
        self._segments = (*self._segments, segment)
        self._synced_bytes = 0
        return segment

    def _sync(self) -> None:
        tail = self._tail
        try:
            self._name_folder()
            tail.segment.sync()
        except OSError:
            self._has_sync_failed = True
            raise
        self._synced_bytes = tail.size_bytes
        self.flushed_offset = self.synced_offset = tail.written_offset
        if tail.size_bytes - (0 if self._point is None else self._point.size_bytes) >= RECOVERY_STEP_BYTES:
            self._mark_point(tail.written_offset, tail.segment)

    def _mark_point(self, offset: int, segment: Segment) -> None:
        """Let a start after a crash read only from here; everything before is synced. Raises: OSError."""
        before = self._point
        self._save_epochs(sync=True)
        self._transaction_indexes.sync()  # Batches before a snapshot are not read from the log again.
        path = f"{self._path}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        self.file_system.replace(path, self._written_producers.encode_snapshot())
        point = segment.recovery_point(offset)
        self.file_system.sync_directory(self._path)  # Indexes may have got their names of late.
        self.file_system.replace(f"{self._path}/{RECOVERY_POINT}", point.encode())
        self._point, self._snapshot_offset = point, offset
        if before is not None and before.offset != offset:
            self.file_system.remove(f"{self._path}/{file_name(before.offset, SNAPSHOT_SUFFIX)}")

    def _forget_point(self, *, sync: bool = True) -> None:
        """Invalidate the recovery point. Raises: OSError."""
        if self._point is not None:
            self.file_system.remove(f"{self._path}/{RECOVERY_POINT}")
            if sync:
                self.file_system.sync_directory(self._path)
            self._point = None

    def _name_folder(self) -> None:
        """Write the owner of the folder: otherwise its synced batches might be taken for another topic's."""
        if not self._is_named:
            name_folder(self.file_system, self._path, self.topic_id)
            self._is_named = True

    def _save_epochs(self, *, sync: bool) -> None:
        self._epochs.is_changed = False
        path = f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"
        self.file_system.replace(path, self._epochs.encode(), sync=sync)

    def _save_snapshot(self, offset: int) -> None:
        """Keep the producers as of `offset`, and the snapshot before. Raises: OSError."""
        self._transaction_indexes.sync()  # Batches before a snapshot are not read from the log again.
        path = f"{self._path}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        self.file_system.replace(path, self._written_producers.encode_snapshot())
        self._snapshot_offset = offset
        keep_newest(self.file_system, self._path, SNAPSHOT_SUFFIX, count=2)

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise StorageError(f"{self.directory} is closed")

    def write_again(self, batches: Sequence[Buffer]) -> None:
        """Write readable batches again, and sync them; not while `write` runs. Blocking."""
        try:
            if batches:
                self._name_folder()
            write_again(self._segments, self.written_offset, batches)
        except OSError as error:
            raise self._fail(f"{self.directory} failed and takes no more appends: {error}") from error

    def assign_epoch(self, epoch: int) -> None:
        """Note that batches staged from now on belong to `epoch`; `write` keeps it on the disk."""
        self._epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch` and where it ends; (-1, -1) when unknown."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that `offset` belongs to, -1 when unknown."""
        return self._epochs.epoch_at(offset)

    def _fail(self, message: str) -> StorageError:
        self._failure = StorageError(message)
        return self._failure
