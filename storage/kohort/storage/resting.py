"""The logs at rest, completely on the disk: they need no recovery after a crash.

`resting-logs-checkpoint` has for each log the state of its files: `0`, the number of logs, a line for each
(topic, index, topic id, base offset of the newest segment, log end offset, bytes of its log, offset index and
time index), and a CRC-32C of all that. It is written after all of these files are synced, and valid while the
sizes match: an append makes them longer. A truncation removes the file first.

A start checks the size of one file of each log, which tells whether the log has to be opened at once.
Opening a log, or marking a stop as clean, checks all of its files.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SEGMENT_FILE,
    TopicPartition,
    decode_partition_metadata,
    partition_folder,
)
from kohort.storage.partition_log import PartitionLog
from kohort.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name

RESTING_LOGS = "resting-logs-checkpoint"
LOOKED_AT_ONCE = 1_000
"""So many logs are synced and noted in a round: a worker thread takes 0.2 ms for one."""
_VERSION = "0"


class RestingLog(msgspec.Struct, frozen=True, gc=False):
    """The state of a log's files while nothing is written."""

    topic_id: UUID
    base_offset: int
    end_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


class Stamp(NamedTuple):
    """Values that change with every write to an open log."""

    log: PartitionLog
    segment: Segment
    end_offset: int


def encode_resting_logs(notes: Mapping[TopicPartition, RestingLog]) -> bytes:
    """Return the file's content."""
    lines = [
        f"{topic} {index} {' '.join(map(str, msgspec.structs.astuple(note)))}\n"
        for (topic, index), note in notes.items()
    ]
    body = f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode()
    return body + b"%08x\n" % crc32c(body)


def decode_resting_logs(content: bytes | None) -> dict[TopicPartition, RestingLog]:
    """Return the content of the file, nothing if it is missing, damaged or of another version."""
    body, last = (content or b"")[:-9], (content or b"")[-9:]
    if not body.startswith(f"{_VERSION}\n".encode()) or last != b"%08x\n" % crc32c(body):
        return {}
    notes: dict[TopicPartition, RestingLog] = {}
    for line in body.decode().split("\n")[2:-1]:
        topic, index, topic_id, *numbers = line.split(" ")
        notes[topic, int(index)] = RestingLog(UUID(topic_id), *map(int, numbers))
    return notes


def look_at(
    file_system: FileSystem, path: str, end_offset: int, *, sync: bool, newest: Segment | None = None
) -> RestingLog | None:
    """Return the state of a log's files, None if there are none, or their owner is unknown.

    With `sync` they are on the disk then, under their names; `newest` is the newest segment of an open log,
    which is to know if that fails. Raises: OSError.
    """
    names = file_system.list_directory(path) or []
    logs = [name for name in names if SEGMENT_FILE.fullmatch(name)]
    topic_id = decode_partition_metadata(file_system.read(f"{path}/{PARTITION_METADATA}"))
    if not logs or topic_id is None:
        return None
    base_offset = int(max(logs).removesuffix(LOG_SUFFIX))
    sizes: list[int] = []
    if newest is not None:
        newest.sync_beside()  # Its batches may be only in the journal, or nobody has asked to sync it.
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        name = file_name(base_offset, suffix)
        file = file_system.open(f"{path}/{name}") if name in names else None
        if file is not None and sync and (newest is None or suffix != LOG_SUFFIX):
            file.sync()
        sizes.append(0 if file is None else file.size())
    if sync:
        for name in (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT):
            if name in names:
                file_system.open(f"{path}/{name}").sync()
        file_system.sync_directory(path)
    size_bytes, index_bytes, time_index_bytes = sizes
    return RestingLog(topic_id, base_offset, end_offset, size_bytes, index_bytes, time_index_bytes)


class RestingLogs:
    """The notes of one data folder, in memory and in the file. Any thread."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._directory = path
        self._path = path / RESTING_LOGS
        self._notes: dict[TopicPartition, RestingLog] = {}
        self._unseen: set[TopicPartition] = set()  # Noted before a crash: one file of each was checked.
        self._stamps: dict[TopicPartition, Stamp] = {}  # Of open logs, as of the last look.
        self._in_file: dict[TopicPartition, RestingLog] = {}
        self._doubted: set[TopicPartition] = set()
        """Logs for which a sync has failed: the next one would succeed, and bring nothing back."""
        self._lock = Lock()
        """Held from the check of a log until the note is written, and by a caller that removes the note."""

    def load(
        self, folders: Collection[TopicPartition], known_ends: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Return the logs as long as was noted before a crash, which end where they should.

        Opening a log calls `still_matches` first. Nothing is noted of the others any more: their files may
        match the note again by chance. Raises: OSError.
        """
        noted = decode_resting_logs(self._file_system.read(self._path))
        for key, note in noted.items():
            if key not in folders:
                continue
            newest = f"{self._folder(key)}/{file_name(note.base_offset, LOG_SUFFIX)}"
            is_as_long = self._file_system.size(newest) == note.size_bytes
            if is_as_long and known_ends.get(key, 0) <= note.end_offset:
                self._notes[key] = note
        self._in_file, self._unseen = noted, set(self._notes)
        if noted != self._notes:
            self._write()
        return set(self._notes)

    def note(self, key: TopicPartition) -> RestingLog | None:
        """Return the note of a log."""
        return self._notes.get(key)

    def still_matches(self, key: TopicPartition) -> bool:
        """Whether all files of a log are as noted before a crash; True for a log without such a note.

        The newest segment's size alone does not prove it: a newer segment may exist.
        """
        if key not in self._unseen:
            return True
        note = self._notes.get(key)
        try:
            return note is not None and note == look_at(
                self._file_system, self._folder(key), note.end_offset, sync=False
            )
        except OSError:
            return False  # The caller that opens the log gets the error.

    def _folder(self, key: TopicPartition) -> str:
        return f"{self._directory}/{partition_folder(*key)}"

    def remove(self) -> None:
        """Invalidate the file, synced. Raises: OSError."""
        if self._in_file or self._file_system.read(self._path) is not None:
            self._file_system.remove(self._path)
            self._file_system.sync_directory(self._directory)
            self._in_file = {}

    def forget(self, key: TopicPartition) -> None:
        """Invalidate the note of a log, synced: the log will be truncated. Raises: OSError.

        All notes go with it, which takes as long for one as for many; the next look writes them again.
        """
        with self._lock:
            self._notes.pop(key, None)
            self._unseen.discard(key)
            self._stamps.pop(key, None)
            if key in self._in_file:
                self.remove()

    def look(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        sound: Mapping[TopicPartition, int],
        is_sound: Callable[[TopicPartition], bool],
    ) -> int:
        """Note the logs that have been at rest since the last check; return how many were synced for it.

        `sound` are the ends of closed logs: they are in the state of the last stop, while `is_sound`
        is true. Blocking. Raises: OSError.
        """
        looked = 0
        for key, log in logs.items():
            with self._lock:
                looked += self._look_at_open(key, log, may_sync=looked < LOOKED_AT_ONCE)
        known = self._notes.keys() | self._doubted
        for key in [key for key in sound if key not in known][: LOOKED_AT_ONCE - looked]:
            with self._lock:
                looked += 1
                self._note(key, sound[key], None)
                if not is_sound(key):  # It was opened meanwhile.
                    self._notes.pop(key, None)
        with self._lock:
            for key in self._notes.keys() - logs.keys() - sound.keys():
                del self._notes[key]
            for key in self._stamps.keys() - logs.keys():
                del self._stamps[key]
            if self._notes != self._in_file:
                self._write()
        return looked

    def _look_at_open(self, key: TopicPartition, log: PartitionLog, *, may_sync: bool) -> int:
        """Return 1 where the log's files were synced, to be noted."""
        stamp, last = _stamp(log), self._stamps.pop(key, None)
        note = self._notes.get(key)
        if stamp is None:
            self._notes.pop(key, None)
            return 0
        self._stamps[key] = stamp
        if note is not None and _is_of(note, stamp):
            return 0
        self._notes.pop(key, None)
        if stamp != last or not may_sync or key in self._doubted:
            return 0
        self._note(key, stamp.end_offset, stamp.segment)
        note = self._notes.get(key)
        if _stamp(log) != stamp or (note is not None and not _is_of(note, stamp)):
            self._notes.pop(key, None)  # It was written meanwhile.
        return 1

    def _note(self, key: TopicPartition, end_offset: int, newest: Segment | None) -> None:
        try:
            found = look_at(self._file_system, self._folder(key), end_offset, sync=True, newest=newest)
        except OSError:
            self._doubted.add(key)
            return  # The caller that uses the log gets the error.
        if found is not None:
            self._notes[key] = found

    def _write(self) -> None:
        self._in_file = {**self._in_file, **self._notes}  # Before: it may exist even if this fails.
        self._file_system.replace(self._path, encode_resting_logs(self._notes))
        self._file_system.sync_directory(self._directory)
        self._in_file = dict(self._notes)


def _stamp(log: PartitionLog) -> Stamp | None:
    """Return the values that identify the state of a log, None if a write is pending."""
    if not log.is_at_rest:
        return None
    return Stamp(log, log.segments[-1], log.log_end_offset)


def _is_of(note: RestingLog, stamp: Stamp) -> bool:
    """Whether a note equals the state of the log itself."""
    known = (stamp.log.topic_id, stamp.segment.base_offset, stamp.end_offset, stamp.segment.size_bytes)
    return (note.topic_id, note.base_offset, note.end_offset, note.size_bytes) == known
