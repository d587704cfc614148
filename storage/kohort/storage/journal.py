"""The group commit journal: small batches of many logs made durable by one sync.

Commits of fifty groups land in fifty logs, and fifty syncs take fifty times as long as one. So a small
batch is written to its log without a sync, and to this file, which is synced once for all of them.
After a crash each log takes from here what it lacks. When the file is full, the logs in it are synced,
and it begins again at its start; its blocks exist already, so a sync has no metadata to write.

    entry:  crc32c uint32 (of all that follows)   size uint32 (of the batches)   sequence uint64
            topic id 16 bytes   partition int32   record batches v2, `size` bytes

Entries stand one behind the other with consecutive sequence numbers; the first that does not fit in is
left over from an earlier lap or torn, and ends the journal. An entry that was torn is never followed by
one of ours: after a recovery the numbers go on with a gap that no leftover can bridge.

What lies before a journaled batch is on the disk itself: in its log's own files, or in this lap. What a
log that cannot be opened just now still has to take from here goes into a file of its own, of the same
form, before the journal begins again: the other logs have use for the journal meanwhile.
"""

import struct
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.records import iterate_batches, read_header
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import Buffer, File, FileSystem
from kohort.storage.partition_log import PartitionLog
from kohort.storage.segment import StagedBatch

JOURNAL_FILE = "group-commit.journal"
KEPT_FILE = "group-commit.kept"
JOURNAL_BYTES = 8 * 1024 * 1024
SEQUENCE_GAP = 1 << 32

_HEAD = struct.Struct(">IIQ16si")
_CHECKED_HEAD = struct.Struct(">IQ16si")  # The checksum covers everything behind itself.
_CHECKED_FROM = _HEAD.size - _CHECKED_HEAD.size
_ZEROS_BYTES = 1024 * 1024


class Entry(NamedTuple):
    """Batches of one log, with the offsets that they have there."""

    topic_id: UUID
    partition: int
    batches: Sequence[Buffer]


class Written(msgspec.Struct, frozen=True, gc=False):
    """Batches that were just written to a log, unsynced, and that the journal is to make durable."""

    log: PartitionLog
    partition: int
    batches: Sequence[StagedBatch]


class Journal:
    """The journal of one data folder. Any thread may append; one at a time gets through."""

    def __init__(self, file_system: FileSystem, directory: Path, size_bytes: int = JOURNAL_BYTES) -> None:
        """Read what a crash left behind; nothing is written yet. Raises: StorageError."""
        self._file_system = file_system
        self._path = directory / JOURNAL_FILE
        self._kept_path = directory / KEPT_FILE
        self._size_bytes = size_bytes
        self._file: File | None = None
        self._position = 0
        self._sequence = SEQUENCE_GAP
        self._lock = Lock()
        self._orphaned: dict[tuple[UUID, int], list[bytes]] = {}
        self._is_orphaned_saved = False  # Whether their own file has all of them.
        self._is_wiped = False  # Whether the files have nothing that a start would read.
        self._ends: dict[PartitionLog, int] = {}  # Where what this lap has of each log ends.
        self.failure: StorageError | None = None
        try:
            self._read_orphaned()
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error}") from error

    # -- after a crash ----------------------------------------------------------------------------------

    def _read_orphaned(self) -> None:
        kept = self._file_system.read(self._kept_path) or b""
        content = self._file_system.read(self._path) or b""
        self._is_wiped = not kept and not content
        for _, entry in journal_entries(kept):
            self._leave(entry)
        for sequence, entry in journal_entries(content):
            self._leave(entry)
            self._sequence = sequence
        if content:
            self._sequence += SEQUENCE_GAP

    def _leave(self, entry: Entry) -> None:
        """Keep for its log what it may lack, unless that is known already."""
        batches = self._orphaned.setdefault((entry.topic_id, entry.partition), [])
        end_offset = read_header(batches[-1]).next_offset if batches else 0
        batches += [bytes(each) for each in entry.batches if read_header(each).base_offset >= end_offset]

    @property
    def orphaned(self) -> int:
        """How many logs have not yet taken the batches that a crash orphaned here."""
        return len(self._orphaned)

    def end_offset(self, topic_id: UUID, partition: int) -> int:
        """Return where the batches end that are orphaned here and belong to a log, 0 where there are none."""
        batches = self._orphaned.get((topic_id, partition), [])
        return max((read_header(batch).next_offset for batch in batches), default=0)

    def restore(self, log: PartitionLog, partition: int) -> int:
        """Let a log that has just been opened take what it lacks, and return how many batches it took.

        They are on the disk afterwards, and so is what the log has of the others: that it can be read does
        not say so, where a sync of the log has failed before. Raises: StorageError.
        """
        key = (log.topic_id, partition)
        batches = self._orphaned.get(key, [])
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
            self._orphaned.pop(key, None)
            self._remove_kept()
        return taken

    def forget(self, *, but: Container[tuple[UUID, int]] = ()) -> None:
        """Drop the orphaned batches of logs that exist no more; those of `but` are still to be opened."""
        with self._lock:
            for key in [key for key in self._orphaned if key not in but]:
                del self._orphaned[key]
            self._remove_kept()

    def recall(self, logs: Container[tuple[UUID, int]]) -> None:
        """Look up what logs that have failed may lack when they are opened again; by topic id and index.

        One call for all that failed together: each reads the whole file. Raises: StorageError.
        """
        with self._lock:
            try:
                content = self._file_system.read(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be read: {error}") from error
            for _, entry in journal_entries(content or b""):
                if (entry.topic_id, entry.partition) in logs:
                    self._leave(entry)
                    self._is_orphaned_saved = False

    def _save_orphaned(self) -> None:
        """Keep orphaned batches in a file of their own: the journal is to be overwritten. Raises: OSError."""
        if not self._orphaned or self._is_orphaned_saved:
            return
        parts: list[Buffer] = []
        for sequence, ((topic_id, partition), batches) in enumerate(self._orphaned.items()):
            parts += _encode(sequence, topic_id.bytes, partition, batches)
        self._file_system.replace(self._kept_path, b"".join(parts))
        self._file_system.sync_directory(self._kept_path.parent)
        self._is_orphaned_saved = True

    def _remove_kept(self) -> None:
        """Remove the file of orphaned batches once there are none; where that fails it does no harm."""
        if self._orphaned:
            return
        self._is_orphaned_saved = False
        with suppress(OSError):  # A log that has what is in there leaves it alone.
            self._file_system.remove(self._kept_path)

    # -- appending --------------------------------------------------------------------------------------

    def has_room(self, size_bytes: int, entries: int) -> bool:
        """Return whether that much fits before the journal has to begin again, and it works at all."""
        if self.failure is not None:
            return False
        return self._position + size_bytes + entries * _HEAD.size <= self._size_bytes

    @property
    def is_appending(self) -> bool:
        """Whether somebody writes to the journal just now, for whom another would wait."""
        return self._lock.locked()

    def append(self, written: Sequence[Written]) -> None:
        """Return when the batches are on the disk, and their logs know it. Blocks. Raises: StorageError.

        A log without batches is left out: it would end the journal for whoever reads it.
        """
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
                raise self._fail(error) from error
            for each in written:
                self._ends[each.log] = each.batches[-1].last_offset + 1
        for each in written:
            each.log.became_durable(each.batches[-1].last_offset + 1)

    def _check_follows(self, written: Written) -> None:
        """Assert that all that lies before is on the disk: after a crash nothing could follow on a hole."""
        log, first_offset = written.log, written.batches[0].base_offset
        assert first_offset <= log.synced_offset or self._ends.get(log) == first_offset, (
            f"{log.directory}: a batch at {first_offset} behind what is synced up to {log.synced_offset} "
            f"and journaled up to {self._ends.get(log)}"
        )

    def _append(self, written: Sequence[Written]) -> None:
        file = self._file or self._prepare()
        self._is_wiped = False
        parts: list[Buffer] = []
        for each in written:
            batches = [batch.data for batch in each.batches]
            parts += _encode(self._sequence, each.log.topic_id_bytes, each.partition, batches)
            self._sequence += 1
        entries = b"".join(parts)
        file.write_at([entries], self._position)
        file.sync()
        self._position += len(entries)

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
        """Begin again at the start. Raises: StorageError, after which it is used no more until `renew`.

        The caller has synced every log that has an entry, and recalled what failed ones may lack.
        """
        with self._lock:
            self._check_synced()
            try:
                self._save_orphaned()
            except OSError as error:
                raise self._fail(error) from error
            self._ends = {}
            self._position = 0

    def _check_synced(self) -> None:
        unsynced = [log for log, end_offset in self._ends.items() if log.synced_offset < end_offset]
        assert not unsynced, f"only the journal has what was acknowledged of {unsynced[0].directory}"

    def renew(self) -> None:
        """Begin again in a new file, where the old one has failed. Raises: StorageError if that fails, too.

        What a failed sync has left of the old one nobody knows. As for `restart`, no log needs it any more.
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
                with suppress(OSError):
                    self._file_system.remove(f"{self._path}.tmp")
                raise self._fail(error) from error
            self._ends = {}
            self._position = 0
            self._is_wiped = not self._orphaned
            self.failure = None

    def may_name(self, log: PartitionLog) -> bool:
        """Whether what a crash would leave here may have batches of the log."""
        if self.failure is not None:
            return True  # The entry that failed may be there all the same.
        return not self._is_wiped and (not self._position or log in self._ends)

    def wipe(self) -> None:
        """Leave nothing that a start would read. Raises: StorageError, and then it is used no more.

        The caller has it begin again before, and restored what was orphaned in every log that is open.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            assert not self._ends, "logs have entries in the journal"
            try:
                if self._file is None:
                    self._prepare()
                elif not self._position:
                    self._file.write_at([bytes(_HEAD.size)], 0)
                    self._file.sync()
                self._is_orphaned_saved = False
                self._save_orphaned()
            except OSError as error:
                raise self._fail(error) from error
            self._remove_kept()
            self._is_wiped = True

    def release(self, log: PartitionLog) -> None:
        """Stand no more for a log that is deleted, or that has failed and was recalled."""
        with self._lock:
            self._ends.pop(log, None)

    def close(self) -> None:
        """Remove the files: every log has been closed cleanly, none will need it. Raises: StorageError."""
        with self._lock:
            self._file = None
            if self.failure is not None or self._orphaned:
                return
            self._remove_kept()
            try:
                self._file_system.remove(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be removed: {error}") from error


def _encode(sequence: int, topic_id: bytes, partition: int, batches: Sequence[Buffer]) -> list[Buffer]:
    """Return an entry in parts."""
    head = _CHECKED_HEAD.pack(sum(map(len, batches)), sequence, topic_id, partition)
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
        crc, size, sequence, topic_id, partition = _HEAD.unpack_from(content, position)
        end = position + _HEAD.size + size
        if not size or end > len(content) or (expected is not None and sequence != expected):
            return
        if crc32c(view[position + _CHECKED_FROM : end]) != crc:
            return
        batches = list(iterate_batches(view[position + _HEAD.size : end]))
        yield sequence, Entry(UUID(bytes=topic_id), partition, batches)
        expected = sequence + 1
        position = end
