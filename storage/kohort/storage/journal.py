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
"""

import struct
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import crc32c

from kohort.protocol.records import iterate_batches, read_header
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import Buffer, File, FileSystem
from kohort.storage.partition_log import PartitionLog

JOURNAL_FILE = "group-commit.journal"
JOURNAL_BYTES = 8 * 1024 * 1024
SEQUENCE_GAP = 1 << 32

_HEAD = struct.Struct(">IIQ16si")
_CHECKED_FROM = 4  # The checksum covers everything behind itself.
_ZEROS_BYTES = 1024 * 1024


class Entry(NamedTuple):
    """Batches of one log, with the offsets that they have there."""

    topic_id: UUID
    partition: int
    batches: Sequence[Buffer]


class Journal:
    """The journal of one data folder. Any thread may append; one at a time gets through."""

    def __init__(self, file_system: FileSystem, directory: Path, size_bytes: int = JOURNAL_BYTES) -> None:
        """Read what a crash left behind; nothing is written yet. Raises: StorageError."""
        self._file_system = file_system
        self._path = directory / JOURNAL_FILE
        self._size_bytes = size_bytes
        self._file: File | None = None
        self._position = 0
        self._sequence = SEQUENCE_GAP
        self._lock = Lock()
        self._left: dict[tuple[UUID, int], list[bytes]] = {}
        self.failure: StorageError | None = None
        try:
            self._read_left()
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error}") from error

    # -- after a crash ----------------------------------------------------------------------------------

    def _read_left(self) -> None:
        content = self._file_system.read(self._path)
        if content is None:
            return
        for sequence, entry in journal_entries(content):
            self._left.setdefault((entry.topic_id, entry.partition), []).extend(map(bytes, entry.batches))
            self._sequence = sequence
        self._sequence += SEQUENCE_GAP

    @property
    def left(self) -> int:
        """How many logs have not yet taken what a crash left here for them."""
        return len(self._left)

    def end_offset(self, topic_id: UUID, partition: int) -> int:
        """Return where the batches end that are left for a log, 0 where there are none."""
        batches = self._left.get((topic_id, partition), [])
        return max((read_header(batch).next_offset for batch in batches), default=0)

    def restore(self, log: PartitionLog, partition: int) -> int:
        """Let a log that has just been opened take what it lacks, and return how many batches it took.

        They are on the disk afterwards, and so is what the log has of the others: that it can be read does
        not say so, where a sync of the log has failed before. Raises: StorageError.
        """
        batches = self._left.get((log.topic_id, partition), [])
        log.write_again([batch for batch in batches if read_header(batch).base_offset < log.log_end_offset])
        taken = 0
        for batch in batches:
            header = read_header(batch)
            if header.base_offset == log.log_end_offset:
                log.stage(batch, (header,), header.partition_leader_epoch)
                taken += 1
        if taken:
            log.write(sync=True)
        self._left.pop((log.topic_id, partition), None)
        return taken

    def forget(self, *, but: Container[tuple[UUID, int]] = ()) -> None:
        """Drop what is left for logs that exist no more; those of `but` are still to be opened."""
        for key in [key for key in self._left if key not in but]:
            del self._left[key]

    def recall(self, topic_id: UUID, partition: int) -> None:
        """Look up what a log that has failed may lack when it is opened again. Raises: StorageError."""
        key = (topic_id, partition)
        with self._lock:
            try:
                content = self._file_system.read(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be read: {error}") from error
            entries = [entry for _, entry in journal_entries(content or b"")]
            self._left[key] = [
                bytes(batch)
                for entry in entries
                if (entry.topic_id, entry.partition) == key
                for batch in entry.batches
            ]

    # -- appending --------------------------------------------------------------------------------------

    def has_room(self, size_bytes: int, entries: int) -> bool:
        """Return whether that much fits before the journal has to begin again, and it works at all."""
        if self.failure is not None or self._left:
            return False
        return self._position + size_bytes + entries * _HEAD.size <= self._size_bytes

    def append(self, entries: Sequence[Entry]) -> None:
        """Write the entries and return when they are on the disk. Blocks. Raises: StorageError.

        One without batches is left out: it would end the journal for whoever reads it.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            try:
                self._append([entry for entry in entries if entry.batches])
            except OSError as error:
                self.failure = StorageError(f"{self._path} failed and is used no more: {error}")
                raise self.failure from error

    def _append(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        file = self._file or self._prepare()
        parts: list[Buffer] = []
        size = 0
        for entry in entries:
            batches_bytes = sum(map(len, entry.batches))
            head = bytearray(_HEAD.size)
            _HEAD.pack_into(head, 0, 0, batches_bytes, self._sequence, entry.topic_id.bytes, entry.partition)
            crc = crc32c.crc32c(memoryview(head)[_CHECKED_FROM:])
            for batch in entry.batches:
                crc = crc32c.crc32c(batch, crc)
            head[:_CHECKED_FROM] = crc.to_bytes(4, "big")
            parts.append(head)
            parts += entry.batches
            size += len(head) + batches_bytes
            self._sequence += 1
        file.write_at(parts if len(parts) == 1 else [b"".join(parts)], self._position)
        file.sync()
        self._position += size

    def _prepare(self) -> File:
        """Return the file with all its blocks in place. Raises: OSError."""
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
        """Begin again at the start, unless a log still has to take something from here.

        The caller has synced every other log that has an entry.
        """
        with self._lock:
            if not self._left:
                self._position = 0

    def close(self) -> None:
        """Remove the file: every log has been closed cleanly, none will need it. Raises: StorageError."""
        with self._lock:
            self._file = None
            if self.failure is not None or self._left:
                return
            try:
                self._file_system.remove(self._path)
            except OSError as error:
                raise StorageError(f"{self._path} cannot be removed: {error}") from error


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
        if crc32c.crc32c(view[position + _CHECKED_FROM : end]) != crc:
            return
        batches = list(iterate_batches(view[position + _HEAD.size : end]))
        yield sequence, Entry(UUID(bytes=topic_id), partition, batches)
        expected = sequence + 1
        position = end
