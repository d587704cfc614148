"""A partition's log: batches are staged in memory, written by a worker thread, read by anyone.

The loop's thread takes what is staged, as a value; `write_staged` writes exactly that, and may do so in a
worker thread while the loop stages more. There is never a second write, and no truncation, deletion or
close, while one runs. Readers see what is written, never what is staged. A failed write or sync is
final: the log takes nothing more until it was closed and opened again from what the disk holds.
Source: org.apache.kafka.storage.internals.log.UnifiedLog.
"""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from kohort.protocol.records import BatchHeader
from kohort.storage.cleaning import Replacement
from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import Buffer, FileSystem
from kohort.storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    claim_folder,
    keep_newest,
    mark_deleted,
    name_folder,
    partition_folder,
    remove_folder,
)
from kohort.storage.open_files import OpenSegments
from kohort.storage.producers import SNAPSHOT_SUFFIX
from kohort.storage.readable_log import ReadableLog
from kohort.storage.reading import Tail
from kohort.storage.recovery import LoadedLog, LogLoader
from kohort.storage.retention import removable_segments
from kohort.storage.rewriting import write_again
from kohort.storage.segment import Segment, StagedBatch, file_name
from kohort.storage.staging import Staged, replicated_batches, staged_batch
from kohort.storage.swapping import DeletedFiles, promise, set_aside, take_place

_NOTHING = Staged((), 0, 0)


class PartitionLog(ReadableLog):
    """One partition's batches, from `log_start_offset` to `log_end_offset`."""

    def __init__(
        self, file_system: FileSystem, directory: Path, topic_id: UUID, config: LogConfig, loaded: LoadedLog
    ) -> None:
        active = loaded.segments[-1]
        tail = Tail(loaded.log_end_offset, active, active.size_bytes)
        super().__init__(directory, loaded.segments, tail, loaded.log_start_offset)
        self.aborted_transactions = loaded.aborted
        self.topic_id = topic_id
        self.topic_id_bytes = topic_id.bytes
        self.config = config
        self.log_end_offset = loaded.log_end_offset  # Counts what is staged.
        self.flushed_offset = loaded.log_end_offset  # What lies before is on the disk, here or in a journal.
        self.synced_offset = loaded.log_end_offset  # What lies before is on the disk in this log's files.
        self.producers = loaded.producers
        self.truncated_bytes = loaded.truncated_bytes
        self.removed_segments, self.gaps = loaded.removed_segments, loaded.gaps
        self.file_system = file_system
        self._path = str(directory)
        self._epochs = loaded.epochs
        self._written_producers = loaded.producers.copy()  # `producers` is ahead by what is staged.
        self._snapshot_offset = loaded.snapshot_offset
        self._staged: list[StagedBatch] = []
        self.staged_bytes = 0  # What is staged and not yet taken.
        self._synced_bytes = active.size_bytes
        self._failure: StorageError | None = None
        self._has_sync_failed = False
        self._is_closed = False
        self._is_named = False  # Whether the folder is known to say, on the disk, whose it is.
        self._began_empty = not loaded.log_end_offset
        self._deleted_files = DeletedFiles(file_system)

    @classmethod
    def open(
        cls,
        file_system: FileSystem,
        directory: Path,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        config: LogConfig,
        clean: bool,
        recovery_point: int,
        log_start_offset: int = 0,
        open_segments: OpenSegments | None = None,
    ) -> "PartitionLog":
        """Return the log of a folder, made if need be, recovered unless `clean`. Raises: StorageError."""
        assert directory.name == partition_folder(topic, index), directory
        path = str(directory)
        try:
            claim_folder(file_system, path, topic_id)
            loaded = LogLoader(file_system, path, config, open_segments).load(
                clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset
            )
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        return cls(file_system, directory, topic_id, config, loaded)

    @property
    def is_closed(self) -> bool:
        """Whether the log takes and gives nothing any more."""
        return self._is_closed

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch, -1 when there is none."""
        return self._epochs.latest

    @property
    def recovery_point(self) -> int:
        """From where an unclean start must scan: batches and indexes before it are on the disk."""
        return self.flushed_offset if self._is_closed else self._segments[-1].base_offset

    @property
    def failure(self) -> StorageError | None:
        """Why the log takes no more appends, None while it does."""
        return self._failure

    def stage(
        self,
        records: Buffer,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        *,
        append_time_ms: int | None = None,
    ) -> int:
        """Return the offset that the first record gets; `headers` are those of the batches in `records`.

        With `append_time_ms` it becomes every record's timestamp. The bytes are copied: offset, epoch
        and timestamp are set in the copy. No I/O. Raises: StorageError when the log has failed.
        """
        self._check_usable()
        first_offset = offset = self.log_end_offset
        self._epochs.assign(leader_epoch, offset)
        position = 0
        for header in headers:
            size = header.size_bytes
            data = records if size == len(records) else records[position : position + size]
            position += size
            batch = staged_batch(data, header, offset, leader_epoch, append_time_ms)
            if header.producer_id >= 0:
                self.producers.append(header, offset)
            self._staged.append(batch)
            self.staged_bytes += size
            offset = batch.last_offset + 1
        self.log_end_offset = offset
        return first_offset

    def stage_replicated(self, records: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Stage batches of a leader's log byte for byte: offsets, epochs and times are the leader's.

        They follow what is here; where the leader has compacted, offsets are missing between them. No I/O.
        Raises: StorageError when the log has failed, or a batch lies before this log's end.
        """
        self._check_usable()
        batches = replicated_batches(records, headers, self.log_end_offset)
        for batch in batches:
            self._epochs.assign(batch.header.partition_leader_epoch, batch.base_offset)
            self.producers.append(batch.header, batch.base_offset)
            self.staged_bytes += len(batch.data)
            self.log_end_offset = batch.last_offset + 1
        self._staged += batches

    def take_staged(self) -> Staged:
        """Return what is staged; whoever takes it has it written before anything else of this log."""
        taken = Staged(self._staged, self.log_end_offset, self.staged_bytes)
        self._staged, self.staged_bytes = [], 0
        return taken

    @property
    def is_durable(self) -> bool:
        """Whether all that is written is on the disk, here or in a journal, and whose it is as well.

        A journal says whose its batches are. While it alone has them all, from the first one on, a folder
        that a crash leaves without its id has nothing that would be missed.
        """
        is_known = self._is_named or self._began_empty
        return is_known and self.flushed_offset == self._tail.written_offset

    @property
    def needs_journal(self) -> bool:
        """Whether something of this log is on the disk in a journal alone."""
        return self.flushed_offset > self.synced_offset

    @property
    def unsynced_bytes(self) -> int:
        """How much of the newest segment is written and not synced: what a sync has to wait for, about."""
        return self._tail.size_bytes - self._synced_bytes

    def became_durable(self, end_offset: int) -> None:
        """Note that what is written below `end_offset` is on the disk, though not in this log's files."""
        assert self.flushed_offset <= end_offset <= self.written_offset, (self.flushed_offset, end_offset)
        self.flushed_offset = end_offset

    def write(self, sync: bool) -> None:
        """Write what is staged, as `write_staged`."""
        self.write_staged(self.take_staged(), sync=sync)

    def sync(self) -> None:
        """Return when all that is written is on the disk. Blocking. Raises: StorageError."""
        self.write_staged(_NOTHING, sync=True)

    def write_staged(self, staged: Staged, *, sync: bool) -> None:
        """Write what was taken; with `sync` return when it, and all before it, is on the disk.

        Blocking: for a worker thread. Raises: StorageError, after which the log takes no more appends.
        """
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
        """Whether a new segment seems to begin with what was taken, which takes several syncs. No I/O."""
        if not staged.batches:
            return False
        newest_ms = staged.batches[-1].max_timestamp
        return self._segments[-1].seems_full(staged.size_bytes, newest_ms, self.config)

    def _write_batches(self, batches: Sequence[StagedBatch]) -> None:
        """Write the batches in runs, a new run with each new segment. Raises: OSError."""
        config, segment = self.config, self._segments[-1]
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

    def _write_run(self, segment: Segment, run: list[StagedBatch]) -> None:
        if not run:
            return
        segment.append(run, self.config.index_interval_bytes)
        for batch in run:
            if batch.header.producer_id >= 0:
                self._written_producers.append(batch.header, batch.base_offset)
        self._tail = Tail(run[-1].last_offset + 1, segment, segment.size_bytes)

    def _roll(self, base_offset: int) -> Segment:
        """Return a new active segment; all before it, indexes too, is on the disk. Raises: OSError."""
        if self.synced_offset != self._tail.written_offset:
            self._sync()
        self._segments[-1].finish()
        self._save_epochs(sync=True)
        self._save_snapshot(base_offset)
        segment = self._segments[-1].sibling(base_offset)
        segment.create()
        self.file_system.sync_directory(self._path)
        for older in self._segments:
            older.seal()  # Reopened by who reads there, and let go again when the log has grown.
        self._segments = (*self._segments, segment)
        self._synced_bytes = 0
        return segment

    def _sync(self) -> None:
        written_offset, segment, size_bytes = self._tail
        try:
            self._name_folder()
            segment.sync()
        except OSError:
            self._has_sync_failed = True
            raise
        self._synced_bytes = size_bytes
        self.flushed_offset = self.synced_offset = written_offset

    def _name_folder(self) -> None:
        """Have the folder say whose it is: else what is synced in it might pass for another topic's."""
        if not self._is_named:
            name_folder(self.file_system, self._path, self.topic_id)
            self._is_named = True

    def _save_epochs(self, *, sync: bool) -> None:
        self._epochs.is_changed = False
        path = f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"
        self.file_system.replace(path, self._epochs.encode(), sync=sync)

    def _save_snapshot(self, offset: int) -> None:
        """Keep the producers as of `offset`, and the snapshot before. Raises: OSError."""
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
        """Write batches that the log shows once more, and sync them; not while `write` runs. Blocking."""
        try:
            if batches:
                self._name_folder()
            write_again(self._segments, self.written_offset, batches)
        except OSError as error:
            raise self._fail(f"{self.directory} failed and takes no more appends: {error}") from error

    def assign_epoch(self, epoch: int) -> None:
        """Note that what is staged from now on belongs to `epoch`; `write` keeps it on the disk."""
        self._epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch` and where it ends; (-1, -1) when unknown."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that `offset` belongs to, -1 when unknown."""
        return self._epochs.epoch_at(offset)

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends at `offset` or behind it, and what is staged.

        Blocking, and not while `write` runs. Raises: StorageError.
        """
        self._check_usable()
        self._staged, self.staged_bytes = [], 0
        try:
            self._truncate(min(offset, self.written_offset))
        except OSError as error:
            raise self._fail(f"{self.directory} cannot be truncated: {error}") from error

    def _truncate(self, offset: int) -> None:
        kept = [segment for segment in self._segments if segment.base_offset <= offset]
        for segment in self._segments[max(1, len(kept)) :]:
            segment.remove()
        if kept:
            end_offset = kept[-1].truncate_to(offset)
        else:
            self._segments[0].remove()
            kept, end_offset = [self._segments[0].sibling(offset)], offset
            kept[0].create()
        for name in self.file_system.list_directory(self._path) or []:
            if name.endswith(SNAPSHOT_SUFFIX) and int(name.removesuffix(SNAPSHOT_SUFFIX)) > end_offset:
                self.file_system.remove(f"{self._path}/{name}")
        self.file_system.sync_directory(self._path)
        self._segments = tuple(kept)
        active = kept[-1]
        self._tail = Tail(end_offset, active, active.size_bytes)
        self._synced_bytes = active.size_bytes
        self.log_end_offset = self.flushed_offset = self.synced_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._epochs.truncate_from(end_offset)
        self._save_epochs(sync=True)
        self._reload_producers()

    def restart_at(self, offset: int) -> None:
        """Remove all that the log has; it begins and goes on at `offset`, where a leader's log begins.

        Blocking, and not while `write` runs. Raises: StorageError.
        """
        self._check_usable()
        self._staged, self.staged_bytes = [], 0
        try:
            self._truncate(min(self.log_start_offset, self._segments[0].base_offset, self.written_offset))
            self._begin_at(offset)
        except OSError as error:
            raise self._fail(f"{self.directory} cannot begin anew: {error}") from error

    def _begin_at(self, offset: int) -> None:
        """Give the log, which is empty, another start. Raises: OSError."""
        empty = self._segments[0]
        if empty.base_offset != offset:
            fresh = empty.sibling(offset)
            fresh.create()
            empty.remove()
            self.file_system.sync_directory(self._path)
            self._segments = (fresh,)
        self._tail = Tail(offset, self._segments[0], 0)
        self._synced_bytes = 0
        self.log_start_offset = offset
        self.log_end_offset = self.flushed_offset = self.synced_offset = offset
        self._epochs.truncate_from(0)
        self._save_epochs(sync=True)
        self._reload_producers()

    def _reload_producers(self) -> None:
        loader = LogLoader(self.file_system, self._path, self.config)
        self.producers, self._snapshot_offset = loader.load_producers(self._segments, self.log_end_offset)
        self._written_producers = self.producers.copy()

    def delete_records_before(self, offset: int, now_ms: int) -> None:
        """Move the log's start to `offset`, and set the segments aside that lie before it.

        Blocking, and not while `write` runs. The new start outlives a crash once the data directory
        has kept it (`DataDirectory.checkpoint`), which comes before an answer. Raises: StorageError.
        """
        self._check_usable()
        if not self.log_start_offset < offset <= self.written_offset:
            return
        if self.synced_offset < self.written_offset:
            self.sync()  # Else the start might lie behind what a crash leaves, within a journaled batch.
        self.log_start_offset = offset
        self._epochs.delete_before(offset)
        if count := sum(segment.base_offset <= offset for segment in self._segments[1:]):
            try:
                self._put_in_place(self._segments[:count], None, now_ms)
            except OSError as error:
                raise self._fail(f"segments of {self.directory} cannot be removed: {error}") from error

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> int:
        """Return how many segments went, by the log's start, its size and their age.

        Where all may go, the log gets a new active segment. Their files stay for `file.delete.delay.ms`.
        Blocking, and not while `write` runs. Raises: StorageError, after which the log has failed.
        """
        self._check_usable()
        try:
            count = self._count_old_segments(high_watermark, now_ms)
            if not count:
                return 0
            if count == len(self._segments):
                self._tail = Tail(self.written_offset, self._roll(self.written_offset), 0)
            self._put_in_place(self._segments[:count], None, now_ms)
        except OSError as error:
            raise self._fail(f"old segments of {self.directory} cannot be deleted: {error}") from error
        self.log_start_offset = max(self.log_start_offset, self._segments[0].base_offset)
        self._epochs.delete_before(self.log_start_offset)
        return count

    def has_old_segments(self, high_watermark: int, now_ms: int) -> bool:
        """Whether any would be deleted. Any thread. Raises: StorageError."""
        try:
            return self._count_old_segments(high_watermark, now_ms) > 0
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be read: {error}") from error

    def _count_old_segments(self, high_watermark: int, now_ms: int) -> int:
        return removable_segments(
            self._segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.written_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )

    def replace_segments(self, replacement: Replacement, now_ms: int) -> bool:
        """Let a cleaned segment take its place, and return True; False if what it stands for is gone.

        Blocking, and not while `write` runs. Raises: StorageError, after which the log has failed.
        """
        self._check_usable()
        try:
            if not set(replacement.replaced) <= set(self._segments[:-1]):
                replacement.cleaned.remove()
                return False
            promise(self.file_system, self._path, replacement.cleaned.base_offset)
            self._put_in_place(replacement.replaced, replacement.cleaned.base_offset, now_ms)
            self.file_system.sync_directory(self._path)
        except OSError as error:
            raise self._fail(f"segments of {self.directory} cannot be replaced: {error}") from error
        return True

    def _put_in_place(self, gone: Sequence[Segment], promised: int | None, now_ms: int) -> None:
        """Set segments aside, and let the promised one, if any, stand where they stood. Raises: OSError."""
        with self._renaming:
            place = self._segments.index(gone[0])
            deleted = set_aside(self.file_system, gone)
            new: tuple[Segment, ...] = ()
            if promised is not None:
                take_place(self.file_system, self._path, promised)
                new = (gone[0].successor(promised),)
            self._segments = (*self._segments[:place], *new, *self._segments[place + len(gone) :])
        self._deleted_files.add(deleted, now_ms + self.config.file_delete_delay_ms)

    def remove_deleted_files(self, now_ms: int) -> int:
        """Return how many files were removed that nobody was to read any more. Raises: StorageError."""
        try:
            return self._deleted_files.remove_due(now_ms)
        except OSError as error:
            raise StorageError(f"old files of {self.directory} cannot be removed: {error}") from error

    @property
    def has_deleted_files(self) -> bool:
        """Whether files wait for `remove_deleted_files`."""
        return bool(self._deleted_files)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Return how many idempotent producers were forgotten. Not while `write` runs."""
        self._written_producers.remove_expired(now_ms, expiration_ms)
        if count := self.producers.remove_expired(now_ms, expiration_ms):
            self._snapshot_offset = -1  # The newest snapshot still knows them.
        return count

    def _fail(self, message: str) -> StorageError:
        self._failure = StorageError(message)
        return self._failure

    def close(self) -> None:
        """Write and sync what is staged, complete the indexes, snapshot the producers; let the files go.

        A log that has failed keeps what it knows to be on the disk, and can then be opened again.
        Raises: StorageError; the log is closed all the same, but was not closed cleanly.
        """
        if self._is_closed:
            return
        try:
            if self._failure is None:
                self._finish()
            else:
                self._cut_to_what_is_known()
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be closed cleanly: {error}") from error
        finally:
            self._is_closed = True
            for segment in self._segments:
                segment.close()

    def _finish(self) -> None:
        try:
            self.write(True)
        except StorageError:
            self._cut_to_what_is_known()
            raise
        self._segments[-1].finish()
        if self._snapshot_offset != self.written_offset:
            self._save_snapshot(self.written_offset)
            self._save_epochs(sync=True)
            self.file_system.sync_directory(self._path)
        elif self._epochs.is_changed:
            self._save_epochs(sync=True)

    def _cut_to_what_is_known(self) -> None:
        """Cut off what a failed write left half done, or what a failed sync may have lost.

        After a failed sync the page cache may show bytes that never reach the disk, so they must not be
        found again when the log is opened.
        """
        segment = self._segments[-1]
        written_bytes = self._tail.size_bytes if self._tail.segment is segment else 0
        size_bytes = self._synced_bytes if self._has_sync_failed else written_bytes
        segment.file.truncate(size_bytes)

    def delete(self, *, at_next_start: bool = False) -> None:
        """Remove the log from the disk: a crash in between leaves a folder that the next start removes.

        `at_next_start` leaves that to it. Raises: StorageError.
        """
        self._is_closed = True
        for segment in self._segments:
            segment.close()
        try:
            deleted = mark_deleted(self.file_system, self._path, self.topic_id)
            if not at_next_start:
                remove_folder(self.file_system, deleted)
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be deleted: {error}") from error
