"""The group commit journal: small batches of many logs made durable by one sync.

Commits of fifty groups land in fifty logs, and fifty syncs take fifty times as long as one. So a small
batch is written to its log without a sync, and to this file, which is synced once for all of them.
After a crash each log restores its missing batches from here. When the file is full, the logs in it are
synced, and it restarts at its beginning; its blocks exist already, so a sync has no metadata to write.

    entry:  crc32c uint32 (of all that follows)   size uint32 (of the batches)   sequence uint64
            topic id 16 bytes   partition int32   record batches v2, `size` bytes

Entries are consecutive and have consecutive sequence numbers; the first one out of sequence is
left over from an earlier lap or torn, and ends the journal. A torn entry is never followed by a
new one: after a recovery the numbers continue with a gap that no leftover can bridge.

Everything before a journaled batch is on the disk: in its log's own files, or in this lap. Batches that a
log which cannot be opened now still has to restore go into a separate file of the same format before
the journal restarts, so that the other logs can use the journal.

A log is identified by its topic id and partition, which outlive each log object: a log that is
opened again, or removed and created again, has the same identity. `may_name` tells whether a start would find
its batches in either file. Before a log is truncated, removed or replaced, its caller calls `wipe` for them.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.records import iterate_batches, read_header
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File, FileSystem
from kohort.storage.layout import LogId
from kohort.storage.operating_system import Buffer
from kohort.storage.partition_log import PartitionLog
from kohort.storage.segment import StagedBatch

JOURNAL_FILE = "group-commit.journal"
KEPT_FILE = "group-commit.kept"
JOURNAL_BYTES = 8 * 1024 * 1024
SEQUENCE_GAP = 1 << 32

_HEAD = struct.Struct(">IIQ20s")
_CHECKED_HEAD = struct.Struct(">IQ20s")  # The checksum covers everything after itself.
_CHECKED_FROM = _HEAD.size - _CHECKED_HEAD.size
_NO_END = None, None
_ZEROS_BYTES = 1024 * 1024


class Entry(NamedTuple):
    """Batches of one log, with the offsets that they have there."""

    log_id: LogId
    batches: Sequence[Buffer]

    @property
    def topic_id(self) -> UUID:
        """Whose batches they are."""
        return UUID(bytes=self.log_id[:16])

    @property
    def partition(self) -> int:
        """Of which partition of the topic."""
        return int.from_bytes(self.log_id[16:], "big", signed=True)


class Written(msgspec.Struct, frozen=True, gc=False):
    """Batches that were just written to a log, unsynced, and that the journal is to make durable."""

    log: PartitionLog
    batches: Sequence[StagedBatch]


class Journal:
    """The journal of one data folder. Any thread may append; one at a time gets through."""

    def __init__(self, file_system: FileSystem, directory: Path, size_bytes: int = JOURNAL_BYTES) -> None:
        """Read what a crash left; nothing is written yet. Raises: StorageError."""
        self._file_system = file_system
        self._path = directory / JOURNAL_FILE
        self._kept_path = directory / KEPT_FILE
        self._size_bytes = size_bytes
        self._file: File | None = None
        self._position = 0
        self._sequence = SEQUENCE_GAP
        self._lock = Lock()
        self._orphaned: dict[LogId, list[bytes]] = {}
        self._is_orphaned_saved = False  # Whether their own file has all of them.
        self._recalled: set[LogId] = set()  # Read again for logs that failed: a start's `forget` spares them.
        self._ends: dict[LogId, tuple[PartitionLog, int]] = {}  # Where what this lap has of each log ends.
        self._named: set[LogId] = set()  # Entries of other logs: nobody relies on these.
        self._kept: set[LogId] = set()  # Those of which the other file has entries.
        self._has_kept_file = False
        self.failure: StorageError | None = None
        try:
            self._read_orphaned()
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error}") from error

    # -- after a crash ----------------------------------------------------------------------------------

    def _read_orphaned(self) -> None:
        kept = self._file_system.read(self._kept_path)
        content = self._file_system.read(self._path) or b""
        self._has_kept_file = kept is not None
        for _, entry in journal_entries(kept or b""):
            self._leave(entry)
            self._kept.add(entry.log_id)
        for sequence, entry in journal_entries(content):
            self._leave(entry)
            self._named.add(entry.log_id)
            self._sequence = sequence
        if content:
            self._sequence += SEQUENCE_GAP

    def _leave(self, entry: Entry) -> None:
        """Keep for its log the batches that it may lack.

        A later entry is newer, and replaces earlier ones.
        """
        batches = self._orphaned.setdefault(entry.log_id, [])
        begin = read_header(entry.batches[0]).base_offset
        while batches and read_header(batches[-1]).next_offset > begin:
            batches.pop()
        batches += [bytes(each) for each in entry.batches]

    @property
    def orphaned(self) -> int:
        """How many logs have not yet taken the batches that a crash orphaned here."""
        return len(self._orphaned)

    def end_offset(self, log_id: LogId) -> int:
        """Return the end offset of the orphaned batches of a log, 0 if there are none."""
        batches = self._orphaned.get(log_id)
        return read_header(batches[-1]).next_offset if batches else 0

    def restore(self, log: PartitionLog) -> int:
        """Append the missing batches to a log that has just been opened, and return how many.

        They are on the disk afterwards, and so are the log's other batches: that they can be read does
        not prove it, because an earlier sync of the log may have failed. Raises: StorageError.
        """
        batches = self._orphaned.get(log.log_id, [])
        log.write_again([batch for batch in batches if read_header(batch).base_offset < log.log_end_offset])
        taken = 0
        for batch in batches:
            header = read_header(batch)
            if header.base_offset == log.log_end_offset:
                log.stage(batch, (header,), header.partition_leader_epoch)
                taken += 1
        if taken:
            log.write(sync=True)
        with self._lock:
            self._orphaned.pop(log.log_id, None)
            self._recalled.discard(log.log_id)
            self._remove_kept()
            if log.log_id in self._ends:  # This lap's: the log was opened again.
                _, end_offset = self._ends[log.log_id]
                self._ends[log.log_id] = log, min(end_offset, log.log_end_offset)
        return taken

    def forget(self, *, but: Collection[LogId] = ()) -> None:
        """Drop the orphaned batches of all logs except those still to be opened; on the disk as well.

        Called once a start has opened every log which may lack batches; some are in use by then. If the
        disk refuses it, the journal has failed, and is not used until `renew`.
        """
        with self._lock:
            kept = self._recalled.union(but)
            for log_id in [log_id for log_id in self._orphaned if log_id not in kept]:
                del self._orphaned[log_id]
            if self.failure is None and not self._position:
                try:
                    self._blank()
                except OSError as error:
                    self._fail(error)
                return
            self._remove_kept()
            if not self._kept <= self._orphaned.keys():
                self._keep_no_others()

    def drop(self, log_id: LogId) -> None:
        """Drop the orphaned batches of one log: they were restored, or the log is removed.

        The files keep theirs.
        """
        with self._lock:
            self._orphaned.pop(log_id, None)
            self._recalled.discard(log_id)

    def recall(self, logs: Collection[LogId]) -> None:
        """Look up what logs that have failed may lack when they are opened again.

        One call for all that failed together: each reads the whole file. Raises: StorageError.
        """
        with self._lock:
            if not any(log_id in self._ends or log_id in self._named for log_id in logs):
                return
            try:
                content = self._file_system.read(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be read: {error}") from error
            for _, entry in journal_entries(content or b""):
                if entry.log_id in logs:
                    self._leave(entry)
                    self._recalled.add(entry.log_id)
                    self._is_orphaned_saved = False

    def _save_orphaned(self) -> None:
        """Keep orphaned batches in a file of their own: the journal is to be overwritten. Raises: OSError."""
        if not self._orphaned or self._is_orphaned_saved:
            return
        parts: list[Buffer] = []
        for sequence, (log_id, batches) in enumerate(self._orphaned.items()):
            parts += _encode(sequence, log_id, batches)
        self._has_kept_file = True
        self._kept.update(self._orphaned)  # If this fails, the earlier content may still be there.
        self._file_system.replace(self._kept_path, b"".join(parts))
        self._file_system.sync_directory(self._kept_path.parent)
        self._kept = set(self._orphaned)
        self._is_orphaned_saved = True

    def _keep_no_others(self) -> None:
        """Keep only orphaned batches in their own file; if that fails, it still names other logs."""
        self._is_orphaned_saved = False
        with suppress(OSError):
            self._save_orphaned()

    def _remove_kept(self) -> None:
        """Remove the file of orphaned batches if there are none; if that fails, the file still names logs."""
        if not self._orphaned:
            with suppress(OSError):  # A log that has these batches already ignores them.
                self._remove_kept_file()

    def _remove_kept_file(self) -> None:
        """Remove the file of orphaned batches, on the disk as well. Raises: OSError."""
        self._is_orphaned_saved = False
        if self._has_kept_file:
            self._file_system.remove(self._kept_path)
            self._file_system.sync_directory(self._kept_path.parent)
            self._kept = set()
            self._has_kept_file = False

    def _blank(self) -> None:
        """Leave only the orphaned batches for the next start. Raises: OSError."""
        if self._orphaned:
            self._is_orphaned_saved &= self._kept == self._orphaned.keys()
            self._save_orphaned()
        else:
            self._remove_kept_file()
        if self._named:
            file = self._file or self._file_system.open(self._path)
            file.write_at([bytes(_HEAD.size)], 0)
            file.sync()
            self._named = set()

    # -- appending --------------------------------------------------------------------------------------

    def has_room(self, size_bytes: int, entries: int) -> bool:
        """Return whether the journal works and so many bytes fit before it has to restart."""
        if self.failure is not None:
            return False
        return self._position + size_bytes + entries * _HEAD.size <= self._size_bytes

    @property
    def is_appending(self) -> bool:
        """Whether another thread is writing to the journal now, so that a writer would wait."""
        return self._lock.locked()

    def append(self, written: Sequence[Written]) -> None:
        """Return when the batches are on the disk, and their logs know it. Blocks. Raises: StorageError.

        A log without batches is left out: it would end the journal for a reader.
        """
        if len(written) != 1 or not written[0].batches:  # One log is the usual case.
            written = [each for each in written if each.batches]
            if not written:
                return
        with self._lock:
            if self.failure is not None:
                raise self.failure
            for each in written:
                self._check_follows(each)
            try:
                self._append(written)
            except OSError as error:
                self._named.update(each.log.log_id for each in written)  # They may still be there.
                raise self._fail(error) from error
            for each in written:
                log, end_offset = each.log, each.batches[-1].last_offset + 1
                self._ends[log.log_id] = log, end_offset
                log.became_durable(end_offset)

    def _check_follows(self, written: Written) -> None:
        """Assert that everything before is on the disk: after a crash nothing could follow a gap."""
        log, first_offset = written.log, written.batches[0].base_offset
        _, end_in_lap = self._ends.get(log.log_id, _NO_END)
        assert first_offset <= log.synced_offset or end_in_lap == first_offset, (
            f"{log.directory}: a batch at {first_offset} behind what is synced up to {log.synced_offset} "
            f"and journaled up to {end_in_lap}"
        )

    def _append(self, written: Sequence[Written]) -> None:
        file = self._file or self._prepare()
        parts: list[Buffer] = []
        for each in written:
            batches = [batch.data for batch in each.batches]
            parts += _encode(self._sequence, each.log.log_id, batches)
            self._sequence += 1
        entries = b"".join(parts)
        is_first = not self._position
        file.write_at([entries], self._position)
        file.sync()
        self._position += len(entries)
        if is_first:
            self._named = set()  # The previous lap is not read any more.

    def _fail(self, error: OSError) -> StorageError:
        self.failure = StorageError(f"{self._path} failed and is used no more: {error}")
        return self.failure

    def _prepare(self) -> File:
        """Return the file with all its blocks in place. Raises: OSError."""
        self._save_orphaned()
        file = self._file_system.open(self._path, create=True)
        zeros = bytes(_ZEROS_BYTES)
        for position in range(0, self._size_bytes, _ZEROS_BYTES):
            file.write_at([zeros[: self._size_bytes - position]], position)
        file.sync()
        self._file_system.sync_directory(self._path.parent)
        self._file = file
        self._position = 0
        return file

    def restart(self) -> None:
        """Restart at the beginning. Raises: StorageError, after which it is not used until `renew`.

        The caller has synced every log that has an entry, and recalled what failed ones may lack.
        """
        with self._lock:
            self._check_synced()
            try:
                self._save_orphaned()
            except OSError as error:
                raise self._fail(error) from error
            self._named.update(self._ends)  # Until the next entry is written before them.
            self._ends = {}
            self._position = 0

    def _check_synced(self) -> None:
        unsynced = [log for log, end_offset in self._ends.values() if log.synced_offset < end_offset]
        assert not unsynced, f"only the journal has what was acknowledged of {unsynced[0].directory}"

    def renew(self) -> None:
        """Begin again in a new file, where the old one has failed. Raises: StorageError if that fails, too.

        The state of the old file after a failed sync is unknown. As for `restart`, no log needs it any more.
        """
        with self._lock:
            self._check_synced()
            try:
                self._is_orphaned_saved = False
                self._save_orphaned()
                self._file_system.replace(self._path, bytes(self._size_bytes))
                self._file_system.sync_directory(self._path.parent)
                self._file = self._file_system.open(self._path)
            except OSError as error:
                self._remove_failed()
                raise self._fail(error) from error
            self._begin_anew()
            self.failure = None

    def _remove_failed(self) -> None:
        """Remove a journal that no log needs: where the disk has no room for another, it names none then."""
        with suppress(OSError):
            self._file_system.remove(f"{self._path}.tmp")
            if self._is_orphaned_saved or not self._orphaned:
                self._file = None
                self._file_system.remove(self._path)
                self._file_system.sync_directory(self._path.parent)
                self._begin_anew()

    def _begin_anew(self) -> None:
        self._ends = {}
        self._named = set()
        self._position = 0

    def may_name(self, log_id: LogId) -> bool:
        """Whether the files that a crash would leave may have batches of the log."""
        return log_id in self._ends or log_id in self._named or log_id in self._kept

    def wipe(self) -> None:
        """Leave only the orphaned batches for a start.

        Raises: StorageError, and then it is not used until `renew`.
        The caller restarts it before, and has restored the orphaned batches of every open log.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            assert not self._ends, "logs have entries in the journal"
            assert not self._position, "the journal has not begun again"
            try:
                self._blank()
            except OSError as error:
                raise self._fail(error) from error

    def release(self, log_id: LogId) -> None:
        """Stop keeping batches of a log that is deleted, or that has failed and was recalled."""
        with self._lock:
            if self._ends.pop(log_id, None) is not None:
                self._named.add(log_id)

    def close(self) -> None:
        """Remove the files: every log has been closed cleanly, none will need it. Raises: StorageError."""
        with self._lock:
            self._file = None
            if self.failure is not None or self._orphaned:
                return
            try:
                self._remove_kept_file()
                self._file_system.remove(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be removed: {error}") from error


def _encode(sequence: int, log_id: LogId, batches: Sequence[Buffer]) -> list[Buffer]:
    """Return an entry in parts."""
    head = _CHECKED_HEAD.pack(sum(map(len, batches)), sequence, log_id)
    crc = crc32c(head)
    for batch in batches:
        crc = crc32c(batch, crc)
    return [crc.to_bytes(_CHECKED_FROM, "big"), head, *batches]


def journal_entries(content: bytes) -> Iterator[tuple[int, Entry]]:
    """Yield each entry of the newest lap with its sequence number."""
    position = 0
    expected: int | None = None
    view = memoryview(content)
    while position + _HEAD.size <= len(content):
        crc, size, sequence, log_id = _HEAD.unpack_from(content, position)
        end = position + _HEAD.size + size
        if not size or end > len(content) or (expected is not None and sequence != expected):
            return
        if crc32c(view[position + _CHECKED_FROM : end]) != crc:
            return
        batches = list(iterate_batches(view[position + _HEAD.size : end]))
        yield sequence, Entry(log_id, batches)
        expected = sequence + 1
        position = end
