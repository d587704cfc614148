"""The data folder: whose it is, which partitions it holds, how far each is known to be on the disk.

Files: `.lock`, `meta.properties`, `.kafka_cleanshutdown` (there while the last shutdown was clean),
`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` (how far
each log was on the disk: a log that ends before has lost records), `cleaner-offset-checkpoint`,
`resting-logs-checkpoint` (`resting`).
Source: org.apache.kafka.storage.internals.log.LogManager, kafka.server.BrokerMetadataCheckpoint.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from uuid import UUID

from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.folders import PartitionFolder, holds_records, partition_folders, read_folder
from kohort.storage.layout import (
    DELETED_SUFFIX,
    PARTITION_METADATA,
    MetaProperties,
    TopicPartition,
    decode_directory_id,
    decode_offset_checkpoint,
    decode_partition_metadata,
    directory_id_line,
    encode_offset_checkpoint,
    encode_partition_metadata,
    mark_deleted,
    partition_folder,
    remove_folder,
)
from kohort.storage.open_files import SEGMENTS_MAX, OpenSegments
from kohort.storage.partition_log import PartitionLog
from kohort.storage.resting import RestingLogs
from kohort.storage.segment import Segment

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

_CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'


CloseAll = Callable[
    [Callable[[PartitionLog], StorageError | None], Iterable[PartitionLog]], Iterable[StorageError | None]
]
"""As `map`, in any order."""


class DataDirectory:
    """One data folder, locked. It opens the logs, and keeps what is to be known of them all."""

    def __init__(
        self, path: Path, file_system: FileSystem, lock: object, open_segments: OpenSegments
    ) -> None:
        self.open_segments = open_segments
        self.path = path
        self.file_system = file_system
        self.is_clean = False
        self.meta: MetaProperties | None = None
        self._directory_id: UUID | None = None
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """Where the next round of compaction begins."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._known_ends: dict[TopicPartition, int] = {}  # How far each open log was known to be on the disk.
        self._state = Lock()
        """Held for every look at the dictionaries and sets here, and for no I/O: three threads have them."""
        self._checkpointing = Lock()
        """Held while checkpoint files are written."""
        self._stale: set[TopicPartition] = set()  # Deleted since the checkpoint files were written.
        self._lock: object | None = lock
        self._missing: set[TopicPartition] = set()  # Gone when the folder was opened, with what they held.
        self._known_sound: set[TopicPartition] = set()  # Since a stop, creation or note.
        self._opening: set[TopicPartition] = set()  # Just now, which may turn out to be a recovery.
        self._had_failed: set[TopicPartition] = set()  # Of these the cache may show what is lost.
        self._resting = RestingLogs(file_system, path)

    @classmethod
    def open(
        cls, path: Path, file_system: FileSystem, *, segments_max: int = SEGMENTS_MAX
    ) -> "DataDirectory":
        """Return the folder, made if need be, locked until it is closed.

        At most `segments_max` segments have open files at a time.

        Raises: StorageError when another process has it, or when it cannot be used.
        """
        try:
            file_system.make_directory(path)
            lock = file_system.lock(path / LOCK)
            if lock is None:
                raise StorageError(f"{path} is in use by another process: stop it, or take another folder")
            directory = cls(path, file_system, lock, OpenSegments(segments_max))
            directory._load()
        except OSError as error:
            raise StorageError(f"{path} cannot be used as a data folder: {error}") from error
        return directory

    def _load(self) -> None:
        content = self.file_system.read(self.path / META_PROPERTIES)
        self.meta = None if content is None else MetaProperties.decode(content)
        self._directory_id = None if content is None else decode_directory_id(content)
        self._finish_deletions()
        folders = set(self._folder_names())
        self.recovery_points = self._read_checkpoint(RECOVERY_POINTS, folders)
        self.log_start_offsets = self._read_checkpoint(LOG_START_OFFSETS, folders)
        self.high_watermarks = self._read_checkpoint(HIGH_WATERMARKS, folders)
        self.cleaner_offsets = self._read_checkpoint(CLEANER_OFFSETS, folders)
        self.is_clean = self.file_system.read(self.path / CLEAN_SHUTDOWN) is not None
        if self.is_clean:
            self._known_sound = folders
            self.file_system.remove(self.path / CLEAN_SHUTDOWN)
            # Before anything is appended: a mark that came back after a crash would hide a torn tail.
            self.file_system.sync_directory(self.path)
            self._resting.remove()
        else:
            known_ends = {key: self._known_end(key) for key in folders}
            self._known_sound = self._resting.load(folders, known_ends)

    def _read_checkpoint(self, name: str, folders: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of partitions that are there; those of others have been stale since a crash.

        A damaged checkpoint says nothing: recovery points of 0 scan more, log starts of 0 show more.
        Raises: OSError.
        """
        offsets = decode_offset_checkpoint(self.file_system.read(self.path / name)) or {}
        self._stale |= offsets.keys() - folders
        self._missing |= {key for key, offset in offsets.items() if offset and key not in folders}
        return {key: offset for key, offset in offsets.items() if key in folders}

    def _finish_deletions(self) -> None:
        for name in self.file_system.list_directory(self.path) or []:
            if name.endswith(DELETED_SUFFIX):
                remove_folder(self.file_system, f"{self.path}/{name}")

    def _folder_names(self) -> list[TopicPartition]:
        return partition_folders(self.file_system, self.path)

    def write_meta(self, cluster_id: str, node_id: int) -> MetaProperties:
        """Return whose folder it is from now on. Raises: StorageError when it is another's already."""
        meta = MetaProperties(cluster_id, node_id)
        if self.meta is not None and self.meta != meta:
            raise StorageError(
                f"{self.path} belongs to broker {self.meta.node_id} of cluster {self.meta.cluster_id}, "
                f"not to broker {node_id} of cluster {cluster_id}"
            )
        if self.meta is None:
            self._replace(META_PROPERTIES, meta.encode())
            self.meta = meta
        return meta

    @property
    def directory_id(self) -> UUID | None:
        """The id that Kafka calls `directory.id`, None where the folder has none, or none of Kafka's form."""
        return self._directory_id

    def ensure_directory_id(self, new_id: UUID) -> UUID:
        """Return the folder's own id, which is `new_id` from now on if it had none. Raises: StorageError."""
        if self._directory_id is None:
            assert self.meta is not None, "it is known whose folder this is"
            self.renew_directory_id(new_id)
        assert self._directory_id is not None
        return self._directory_id

    def renew_directory_id(self, new_id: UUID) -> None:
        """Make the folder another one to everybody who knew it. Raises: StorageError."""
        assert self.meta is not None, "it is known whose folder this is"
        self._replace(META_PROPERTIES, self.meta.encode() + directory_id_line(new_id))
        self._directory_id = new_id

    def partitions(self) -> tuple[PartitionFolder, ...]:
        """Return the partitions that the folder holds, by topic and index. Raises: StorageError."""
        return tuple(map(self._folder, self._folder_names()))

    def strays(
        self, topic_ids: Mapping[str, UUID], is_here: Callable[[TopicPartition], bool] = lambda key: True
    ) -> tuple[PartitionFolder, ...]:
        """Return the folders that are not of the topics which have their names now, by id, or do not say so.

        So are those of partitions that are on other brokers alone: `is_here` says which are not.

        One that was noted as its topic's is not asked again: the note goes before it may become another's,
        and whoever opens it looks. Raises: StorageError.
        """
        wanted = ((key, topic_ids.get(key[0]) if is_here(key) else None) for key in self._folder_names())
        asked = [(self._folder(key), its) for key, its in wanted if not self._is_noted(key, its)]
        return tuple(folder for folder, its in asked if its is None or folder.topic_id != its)

    def _is_noted(self, key: TopicPartition, topic_id: UUID | None) -> bool:
        note = self._resting.note(key)
        return note is not None and note.topic_id == topic_id

    def _folder(self, key: TopicPartition) -> PartitionFolder:
        return read_folder(self.file_system, self.path, key)

    def create_partitions(self, partitions: Sequence[tuple[str, UUID, int]]) -> None:
        """Make the folders and empty logs of (topic, topic id, index), their names on the disk.

        One call for many: the first sync writes the file system's journal, and the others find it done.
        Those that exist stay as they are. Raises: StorageError.
        """
        known = set(self._folder_names())
        wanted = [each for each in partitions if (each[0], each[2]) not in known]
        paths = [f"{self.path}/{partition_folder(topic, index)}" for topic, _, index in wanted]
        self._forget_stale((topic, index) for topic, _, index in wanted)
        try:
            for topic, _, index in wanted:
                self._resting.forget((topic, index))  # One that was here before, and will not come back.
            for (_, topic_id, _), path in zip(wanted, paths, strict=True):
                self.file_system.make_directory(path)
                Segment(self.file_system, path, 0).create()
                # Not synced: if a crash takes the content, it is written again when the log is opened.
                metadata = self.file_system.open(f"{path}/{PARTITION_METADATA}", create=True)
                metadata.write_at([encode_partition_metadata(topic_id)], 0)
            for folder in (*paths, str(self.path)):
                self.file_system.sync_directory(folder)
        except OSError as error:
            raise StorageError(f"partitions cannot be created in {self.path}: {error}") from error
        with self._state:
            self._known_sound.update((topic, index) for topic, _, index in wanted)

    def open_log(self, topic: str, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        """Return the partition's log, made if need be; one that has failed is closed and opened anew.

        Raises: StorageError.
        """
        key = topic, index
        self.check_present()
        self._forget_stale((key,))
        with self._state:
            before = self.logs.get(key)
            if before is not None:
                self._had_failed.add(key)
        if before is not None:
            before.close()  # Where that fails it is there to be closed by the next who wants it open.
        with self._state:
            if before is not None:
                self.logs.pop(key, None)
                self._note_offsets(key, before)
            self._opening.add(key)
            recovery_point = self.recovery_points.get(key, 0)
            log_start_offset = self.log_start_offsets.get(key, 0)
        log = PartitionLog.open(
            self.file_system,
            self.path / partition_folder(topic, index),
            topic=topic,
            topic_id=topic_id,
            index=index,
            config=config,
            clean=self._is_known_sound(key),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            open_segments=self.open_segments,
            before_cut=partial(self._resting.forget, key),
        )
        with self._state:
            self._opening.discard(key)
            self._known_sound.discard(key)
            log.may_rest = key not in self._had_failed
            self._known_ends[key] = self._known_end(key)
            self.logs[key] = log
        return log

    def known_end(self, topic: str, index: int) -> int:
        """Return how far a log that was opened was known to be on the disk; a disk that lied has less."""
        return self._known_ends.get((topic, index), 0)

    def _known_end(self, key: TopicPartition) -> int:
        return max(self.recovery_points.get(key, 0), self.high_watermarks.get(key, 0))

    def sound_end(self, topic: str, topic_id: UUID, index: int) -> int | None:
        """Return where a log ends that is sound and not open; None for one that is to be recovered."""
        note = self._resting.note((topic, index))
        with self._state:
            is_sound = (topic, index) in self._known_sound
        return note.end_offset if is_sound and note is not None and note.topic_id == topic_id else None

    def _is_known_sound(self, key: TopicPartition) -> bool:
        """Whether the log needs no recovery; one that was noted is looked at."""
        with self._state:
            is_known = key in self._known_sound
        if is_known and not self._resting.bears_out(key):
            with self._state:
                self._known_sound.discard(key)
            return False
        return is_known

    def _is_sound(self, key: TopicPartition) -> bool:
        with self._state:
            return key in self._known_sound and key not in self._opening

    def note_resting_logs(self) -> int:
        """Keep on the disk which logs need no recovery; return how many were synced for it.

        For a calm moment. Blocking. Raises: StorageError.
        """
        with self._state:
            logs = dict(self.logs)
            sound = {key: self._known_end(key) for key in self._known_sound - logs.keys()}
        try:
            return self._resting.look(logs, sound, self._is_sound)
        except OSError as error:
            raise StorageError(f"what rests in {self.path} cannot be noted: {error}") from error

    def is_missing(self, topic: str, index: int) -> bool:
        """Return whether the partition's folder was gone at the start, though it had held something."""
        return (topic, index) in self._missing

    def was_cut(self, topic: str, index: int) -> None:
        """Let what is written down of a log reach no further than the log, which was cut on purpose.

        Else the next start would take it for one that its disk has shortened. Blocking. Raises: StorageError.
        """
        key = topic, index
        with self._state:
            log = self.logs.get(key)
            known_end = self._known_end(key)
        if log is not None and log.log_end_offset < known_end:
            self.checkpoint()

    def check_present(self) -> None:
        """Raise StorageError where the folder is gone: an empty one would pass for the old one."""
        try:
            is_there = self.file_system.read(self.path / LOCK) is not None
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from error
        if not is_there:
            raise StorageError(f"{self.path} was removed, or moved away, while it was in use")

    def _note_offsets(self, key: TopicPartition, log: PartitionLog) -> None:
        self.recovery_points[key] = log.recovery_point
        self.log_start_offsets[key] = log.log_start_offset
        self.high_watermarks[key] = log.flushed_offset

    def _forget_stale(self, keys: Iterable[TopicPartition]) -> None:
        """See that no checkpoint says of new partitions what it said of deleted ones of the same names.

        A log start that is not theirs would, after a crash, take their records. Raises: StorageError.
        """
        with self._state:
            is_stale = not self._stale.isdisjoint(keys)
        if is_stale:
            self.checkpoint()

    def delete_log(self, topic: str, index: int) -> None:
        """Remove a partition that was opened. Blocking, not while it is written. Raises: StorageError."""
        key = topic, index
        with self._state:
            log = self.logs.pop(key)
            self._forget(key)
        log.delete()

    def delete_at_next_start(self, topic: str, topic_id: UUID, index: int) -> None:
        """Take the folder of a deleted partition, open or not, from its name; the next start removes it.

        One that is not there, or is another topic's by now, stays as it is. Raises: StorageError.
        """
        key = topic, index
        path = self.path / partition_folder(topic, index)
        with self._state:
            log = self.logs.get(key)
            if log is not None and log.topic_id != topic_id:
                return
            self.logs.pop(key, None)
            self._forget(key)
        if log is not None:
            log.delete(at_next_start=True)
            return
        try:
            if self.file_system.list_directory(path) is None:
                return
            found = decode_partition_metadata(self.file_system.read(path / PARTITION_METADATA))
            if found in {None, topic_id}:
                mark_deleted(self.file_system, str(path), topic_id)
        except OSError as error:
            raise StorageError(f"{path} cannot be deleted: {error}") from error

    def holds_records(self, folder: PartitionFolder) -> bool:
        """Return whether anything was ever written there that is still there. Raises: StorageError."""
        return holds_records(self.file_system, folder)

    def set_log_aside(self, topic: str, topic_id: UUID, index: int, suffix: str) -> str | None:
        """Close a log that is open, rename its folder, and return its new name; None where there is none.

        Blocking, not while it is written. Raises: StorageError.
        """
        key = topic, index
        with self._state:
            log = self.logs.get(key)
            if log is not None and log.topic_id != topic_id:
                return None
            self.logs.pop(key, None)
        if log is not None:
            log.close()
        if key not in self._folder_names():
            return None
        folder = self._folder(key)
        if folder.topic_id not in {None, topic_id}:
            return None
        return self.set_aside(folder, suffix)

    def set_aside(self, folder: PartitionFolder, suffix: str) -> str:
        """Rename a folder that is not open, forget what is known of it, and return its new name.

        Where one was set aside under that name before, another name is made. Raises: StorageError.
        """
        path, count = f"{folder.path}{suffix}", 1
        try:
            while self.file_system.list_directory(path) is not None:
                count += 1
                path = f"{folder.path}.{count}{suffix}"
            self.file_system.rename(folder.path, path)
            self.file_system.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{folder.path} can't be renamed: {error}") from error
        with self._state:
            self._forget((folder.topic, folder.index))
        return path

    def _forget(self, key: TopicPartition) -> None:
        """Let no other log of that name begin with what was known of this one."""
        for offsets in (
            self.recovery_points,
            self.log_start_offsets,
            self.high_watermarks,
            self.cleaner_offsets,
            self._known_ends,
        ):
            offsets.pop(key, None)
        self._known_sound.discard(key)
        self._had_failed.discard(key)
        self._stale.add(key)

    def checkpoint(self) -> None:
        """Keep every log's start and recovery point on the disk. Blocking. Raises: StorageError."""
        with self._checkpointing:
            with self._state:
                stale = tuple(self._stale)
                for key, log in self.logs.items():
                    self._note_offsets(key, log)
                # Logs start at 0 unless noted.
                starts = {key: offset for key, offset in self.log_start_offsets.items() if offset}
                high_watermarks, recovery_points = dict(self.high_watermarks), dict(self.recovery_points)
                cleaner_offsets = dict(self.cleaner_offsets)
            self._replace(LOG_START_OFFSETS, encode_offset_checkpoint(starts))
            self._replace(HIGH_WATERMARKS, encode_offset_checkpoint(high_watermarks))
            self._replace(RECOVERY_POINTS, encode_offset_checkpoint(recovery_points))
            if stale:
                self._replace(CLEANER_OFFSETS, encode_offset_checkpoint(cleaner_offsets))
            with self._state:
                self._stale.difference_update(stale)

    def cleaner_offset(self, topic: str, index: int) -> int | None:
        """Return where a log's next compaction begins, None where none was made yet."""
        with self._state:
            return self.cleaner_offsets.get((topic, index))

    def save_cleaner_offset(self, topic: str, index: int, offset: int, *, cleaned: PartitionLog) -> None:
        """Keep on the disk where a log's next compaction begins, unless another has its place by now.

        Blocking. Raises: StorageError.
        """
        with self._checkpointing:
            with self._state:
                if self.logs.get((topic, index)) is not cleaned:
                    return
                self.cleaner_offsets[topic, index] = offset
                cleaner_offsets = dict(self.cleaner_offsets)
            self._replace(CLEANER_OFFSETS, encode_offset_checkpoint(cleaner_offsets))

    def close(self, when_sound: Callable[[], None] = lambda: None, close_all: CloseAll = map) -> None:
        """Close every log and, if all went well, mark the shutdown as clean; let the lock go.

        `when_sound` is called in between, once every log has all that is its own on the disk. `close_all`
        may close many logs at once: the disk is quicker with them than one by one.
        Raises: StorageError of the first log that failed, after all were closed.
        """
        if self._lock is None:
            return
        failures = [failure for failure in close_all(_close, self.logs.values()) if failure is not None]
        try:
            self.checkpoint()
            # A log that was not opened at all, after an unclean shutdown, is still to be recovered.
            unopened = set(self._folder_names()) - self.logs.keys()
            if not failures:
                when_sound()
            if not failures and all(map(self._is_known_sound, unopened)):
                self._remove_notes()
                self._replace(CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_CONTENT)
        finally:
            self._lock = None
        if failures:
            raise failures[0]

    def _remove_notes(self) -> None:
        """Say nothing of logs that another broker may write to before this one starts again."""
        try:
            self._resting.remove()
        except OSError as error:
            raise StorageError(f"what rests in {self.path} cannot be forgotten: {error}") from error

    def _replace(self, name: str, content: bytes) -> None:
        try:
            self.file_system.replace(self.path / name, content)
            self.file_system.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{self.path / name} cannot be written: {error}") from error


def _close(log: PartitionLog) -> StorageError | None:
    """Return why the log could not be closed cleanly, or had failed before."""
    failure = log.failure
    try:
        log.close()
    except StorageError as error:
        return failure or error
    return failure
