"""A partition's log: batches are appended, old segments are deleted, some are replaced.

This module changes which segments there are. There is no truncation, deletion, replacement or close while
a write runs; `writable_log` describes how batches are written.
Source: org.apache.kafka.storage.internals.log.UnifiedLog.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import (
    claim_folder,
    keep_newest,
    mark_deleted,
    partition_folder,
    remove_folder,
)
from kohort.storage.open_files import OpenSegments
from kohort.storage.producers import SNAPSHOT_SUFFIX
from kohort.storage.reading import Tail
from kohort.storage.recovery import LoadedLog, LogLoader
from kohort.storage.retention import removable_segments
from kohort.storage.segment import Segment
from kohort.storage.swapping import DeletedFiles, Replacement, promise, set_aside, take_place
from kohort.storage.writable_log import WritableLog


class PartitionLog(WritableLog):
    """One partition's batches, from `log_start_offset` to `log_end_offset`."""

    def __init__(
        self, file_system: FileSystem, directory: Path, topic_id: UUID, config: LogConfig, loaded: LoadedLog
    ) -> None:
        super().__init__(file_system, directory, topic_id, config, loaded)
        self.truncated_bytes = loaded.truncated_bytes
        self.removed_segments, self.gaps = loaded.removed_segments, loaded.gaps
        self._deleted_files = DeletedFiles(file_system)
        self._before_cut: Callable[[], None] = lambda: None

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
        before_cut: Callable[[], None] = lambda: None,
    ) -> "PartitionLog":
        """Return the log of a folder, made if need be, recovered unless `clean`. Raises: StorageError.

        `before_cut` is called before a batch that may be on the disk is removed; it may raise OSError.
        """
        assert directory.name == partition_folder(topic, index), directory
        path = str(directory)
        try:
            claim_folder(file_system, path, topic_id)
            loaded = LogLoader(file_system, path, config, open_segments, before_cut).load(
                clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset
            )
            opened = cls(file_system, directory, topic_id, config, loaded)
            if loaded.log_end_offset and not clean:
                opened._name_folder()  # Its content counts as synced from now on.
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        opened._before_cut = before_cut
        return opened

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends at or after `offset`, and everything staged.

        Blocking, and not while `write` runs. Raises: StorageError.
        """
        self._check_usable()
        self._staged, self.staged_bytes = [], 0
        try:
            self._truncate(min(offset, self.written_offset))
        except OSError as error:
            raise self._fail(f"{self.directory} cannot be truncated: {error}") from error

    def _truncate(self, offset: int) -> None:
        self._is_being_cut = True  # No note of the log as at rest, from before it is forgotten.
        if offset < self.written_offset:
            self._before_cut()
        self._cut(offset)
        self._is_being_cut = False

    def _cut(self, offset: int) -> None:
        if self._point is not None and offset < self._point.offset:
            self._forget_point()  # First: batches written later at these offsets are different ones.
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
        if end_offset:
            self._name_folder()  # The rest counts as synced.
        self._segments = tuple(kept)
        active = kept[-1]
        self._tail = Tail(end_offset, active, active.size_bytes)
        self._synced_bytes = active.size_bytes
        self.log_end_offset = self.flushed_offset = self.synced_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.gaps = tuple(gap for gap in self.gaps if gap[0] < end_offset)
        self._epochs.truncate_from(end_offset)
        self._save_epochs(sync=True)
        self._reload_producers()

    def restart_at(self, offset: int) -> None:
        """Remove everything in the log; it restarts at `offset`, where a leader's log starts.

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
        # A transaction open in the removed log would never end.
        keep_newest(self.file_system, self._path, SNAPSHOT_SUFFIX, count=0)
        self._name_folder()  # A journal has the batches from `offset` on, but not the offset itself.
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
        self._take_writers(loader.load_writers(self._segments, self.log_end_offset))

    def delete_records_before(self, offset: int, now_ms: int) -> None:
        """Move the log's start to `offset`, and set the segments aside that lie before it.

        Blocking, and not while `write` runs. The new start survives a crash after the data directory
        has kept it (`DataDirectory.checkpoint`), which happens before an answer. Raises: StorageError.
        """
        self._check_usable()
        if not self.log_start_offset < offset <= self.written_offset:
            return
        if self.synced_offset < self.written_offset:
            # Otherwise the start might be after the end that a crash leaves, within a journaled batch.
            self.sync()
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
        """Put a cleaned segment in place, and return True; False if the segments that it replaces are gone.

        Blocking, and not while `write` runs. Raises: StorageError, after which the log has failed.
        """
        self._check_usable()
        try:
            if not set(replacement.replaced) <= set(self._segments[:-1]):
                replacement.cleaned.remove()
                return False
            promise(self.file_system, self._path, replacement.cleaned.base_offset)
            begin, end = replacement.replaced[0].base_offset, self._end_of(replacement.replaced[-1])
            self._put_in_place(replacement.replaced, replacement.cleaned.base_offset, now_ms)
            self.file_system.sync_directory(self._path)
            self.aborted_transactions.replace(begin, end, self._transaction_indexes.read(begin))
        except OSError as error:
            raise self._fail(f"segments of {self.directory} cannot be replaced: {error}") from error
        return True

    def _end_of(self, segment: Segment) -> int:
        """Return where a sealed segment's successor starts."""
        return self._segments[self._segments.index(segment) + 1].base_offset

    def _put_in_place(self, gone: Sequence[Segment], promised: int | None, now_ms: int) -> None:
        """Set segments aside, and put the promised one, if any, in their place. Raises: OSError."""
        with self._renaming:
            place = self._segments.index(gone[0])
            deleted = set_aside(self.file_system, gone)
            new: tuple[Segment, ...] = ()
            if promised is not None:
                take_place(self.file_system, self._path, promised)
                new = (gone[0].successor(promised),)
            self._segments = (*self._segments[:place], *new, *self._segments[place + len(gone) :])
        self._deleted_files.add(deleted, now_ms + self.config.file_delete_delay_ms)
        self.aborted_transactions.replace(0, self._segments[0].base_offset, ())

    def remove_deleted_files(self, now_ms: int) -> int:
        """Return how many deleted files were removed after their delay. Raises: StorageError."""
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

    def close(self) -> None:
        """Write and sync what is staged, complete the indexes, snapshot the producers; close the files.

        A failed log keeps what it knows to be on the disk, and can then be opened again.
        Raises: StorageError; the log then refuses appends but was not closed cleanly, and the next
        opening closes it again first: a cache may still show bytes that are not on the disk.
        """
        if self._is_settled:
            return
        try:
            if self._failure is None and not self._is_closed:
                self._finish()
            else:
                self._cut_to_what_is_known()
            self._is_settled = True
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
        """Truncate what a failed write left incomplete, or what a failed sync may have lost.

        After a failed sync the page cache may show bytes that never reach the disk, so they must not be
        found again when the log is opened.
        """
        segment = self._segments[-1]
        written_bytes = self._tail.size_bytes if self._tail.segment is segment else 0
        size_bytes = self._synced_bytes if self._has_sync_failed else written_bytes
        with suppress(FileNotFoundError):  # Then nothing is found there.
            segment.file.truncate(size_bytes)

    def delete(self, *, at_next_start: bool = False) -> None:
        """Remove the log from the disk: a crash in between leaves a folder that the next start removes.

        `at_next_start` leaves that to it. Raises: StorageError.
        """
        self._is_closed = self._is_settled = True
        for segment in self._segments:
            segment.close()
        try:
            deleted = mark_deleted(self.file_system, self._path, self.topic_id)
            if not at_next_start:
                remove_folder(self.file_system, deleted)
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be deleted: {error}") from error
