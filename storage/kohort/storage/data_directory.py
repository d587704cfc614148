"""The data folder: its owner, the partitions in it, and how far each log is known to be on the disk.

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
from kohort.storage.folders import PartitionFolder, partition_folders, read_folder, says_topic_id
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
from kohort.storage.log_records import Checkpoint, LogRecords
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
SYNCED_OFFSETS = "replication-offset-checkpoint"

_CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'


CloseAll = Callable[
    [Callable[[PartitionLog], StorageError | None], Iterable[PartitionLog]], Iterable[StorageError | None]
]
"""As `map`, in any order."""


class DataDirectory:
    """One data folder, locked. It opens the logs and keeps the facts about each of them."""

    def __init__(
        self, path: Path, file_system: FileSystem, lock: object, open_segments: OpenSegments
    ) -> None:
        self.open_segments = open_segments
        self.path = path
        self._path = str(path)
        self.file_system = file_system
        self.is_clean = False
        self.meta: MetaProperties | None = None
        self.directory_id: UUID | None = None
        """The id that Kafka calls `directory.id`; None if the folder has none, or none of Kafka's form."""
        self.records = LogRecords()
        self._checkpointing = Lock()
        """Held while checkpoint files are written."""
        self._lock: object | None = lock
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
        self.directory_id = None if content is None else decode_directory_id(content)
        self._finish_deletions()
        folders = dict.fromkeys(self._folder_names())
        names = (RECOVERY_POINTS, LOG_START_OFFSETS, SYNCED_OFFSETS, CLEANER_OFFSETS)
        self.records.load(Checkpoint(*map(self._read_checkpoint, names)), folders)
        self.is_clean = self.file_system.read(self.path / CLEAN_SHUTDOWN) is not None
        if self.is_clean:
            self.records.note_sound(folders)
            self.file_system.remove(self.path / CLEAN_SHUTDOWN)
            # Before anything is appended: a mark that reappeared after a crash would hide a torn tail.
            self.file_system.sync_directory(self.path)
            self._resting.remove()
        else:
            self.records.note_sound(self._resting.load(folders, self.records.ends_on_disk()))

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets of a checkpoint file. Raises: OSError.

        A damaged checkpoint is ignored: recovery points of 0 scan more, log starts of 0 show more.
        """
        return decode_offset_checkpoint(self.file_system.read(self.path / name)) or {}

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

    def ensure_directory_id(self, new_id: UUID) -> UUID:
        """Return the folder's own id, which is `new_id` from now on if it had none. Raises: StorageError."""
        if self.directory_id is None:
            assert self.meta is not None, "it is known whose folder this is"
            self.renew_directory_id(new_id)
        assert self.directory_id is not None
        return self.directory_id

    def renew_directory_id(self, new_id: UUID) -> None:
        """Give the folder a new directory id. Raises: StorageError."""
        assert self.meta is not None, "it is known whose folder this is"
        self._replace(META_PROPERTIES, self.meta.encode() + directory_id_line(new_id))
        self.directory_id = new_id

    def partitions(self) -> tuple[PartitionFolder, ...]:
        """Return the partitions that the folder holds, by topic and index. Raises: StorageError."""
        return tuple(map(self._folder, self._folder_names()))

    def strays(
        self, topic_ids: Mapping[str, UUID], is_here: Callable[[TopicPartition], bool] = lambda key: True
    ) -> tuple[PartitionFolder, ...]:
        """Return the folders whose topic id is not that of the topic with their name now, or is unknown.

        Folders of partitions that are only on other brokers are returned too: `is_here` tells which are not
        here.

        A folder that was noted as its topic's is not read again: the note is removed before the folder can
        change its owner, and opening the log checks the owner. Raises: StorageError.
        """
        wanted = ((key, topic_ids.get(key[0]) if is_here(key) else None) for key in self._folder_names())
        doubtful = [(key, its) for key, its in wanted if its is None or not self._belongs_to(key, its)]
        asked = [(self._folder(key), its) for key, its in doubtful]
        return tuple(folder for folder, its in asked if its is None or folder.topic_id != its)

    def _belongs_to(self, key: TopicPartition, topic_id: UUID) -> bool:
        """Whether a folder is noted as this topic's, or contains its id exactly as it is written."""
        note = self._resting.note(key)
        if note is not None and note.topic_id == topic_id:
            return True
        return says_topic_id(self.file_system, self._path, key, topic_id)

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
                self._resting.forget((topic, index))  # One that was here before and does not return.
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
        self.records.note_sound((topic, index) for topic, _, index in wanted)

    def open_log(self, topic: str, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        """Return the partition's log, created if needed; a failed one is closed and opened again.

        Raises: StorageError.
        """
        key = topic, index
        self.check_present()
        self._forget_stale((key,))
        before = self.records.begin_to_reopen(key)
        if before is not None:
            before.close()  # If that fails, the next caller that opens the log closes it.
        recovery_point, log_start_offset = self.records.begin_to_open(key, before)
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
        self.records.opened(key, log)
        return log

    def sound_end(self, topic: str, topic_id: UUID, index: int) -> int | None:
        """Return the end of a closed log that is known to be intact; None for one that needs recovery."""
        note = self._resting.note((topic, index))
        is_sound = self.records.is_known_sound((topic, index))
        return note.end_offset if is_sound and note is not None and note.topic_id == topic_id else None

    def _is_known_sound(self, key: TopicPartition) -> bool:
        """Whether the log needs no recovery, by its files as well if it was noted before a crash."""
        is_known = self.records.is_known_sound(key)
        if is_known and not self._resting.still_matches(key):
            self.records.doubt(key)
            return False
        return is_known

    def note_resting_logs(self) -> int:
        """Keep on the disk which logs need no recovery; return how many were synced for it.

        For a calm moment. Blocking. Raises: StorageError.
        """
        logs, sound = self.records.open_logs(), self.records.unopened_sound()
        try:
            return self._resting.look(logs, sound, self.records.rests)
        except OSError as error:
            raise StorageError(f"what rests in {self.path} cannot be noted: {error}") from error

    def was_cut(self, topic: str, index: int) -> None:
        """Let the checkpoints reach no further than the log, which was truncated on purpose.

        Otherwise the next start would take the log for one that its disk has shortened. Blocking. Raises:
        StorageError.
        """
        log = self.records.log(topic, index)
        if log is not None and log.log_end_offset < self.records.end_on_disk((topic, index)):
            self.checkpoint()

    def check_present(self) -> None:
        """Raise StorageError if the folder is missing: an empty one would be taken for the old one."""
        try:
            is_there = self.file_system.size(f"{self._path}/{LOCK}") is not None
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from error
        if not is_there:
            raise StorageError(f"{self.path} was removed, or moved away, while it was in use")

    def _forget_stale(self, keys: Iterable[TopicPartition]) -> None:
        """Make sure that no checkpoint applies an entry of a deleted partition to a new one with its name.

        A log start that is not theirs would, after a crash, take their records. Raises: StorageError.
        """
        if self.records.is_stale(keys):
            self.checkpoint()

    def delete_log(self, topic: str, index: int) -> None:
        """Remove a partition that was opened. Blocking, not while it is written. Raises: StorageError."""
        log = self.records.forget((topic, index))
        assert log is not None, f"the log of {topic}-{index} is open"
        log.delete()

    def delete_at_next_start(self, topic: str, topic_id: UUID, index: int) -> None:
        """Take the folder of a deleted partition, open or not, from its name; the next start removes it.

        A missing folder, or one of another topic, is not changed. Raises: StorageError.
        """
        path = self.path / partition_folder(topic, index)
        log, is_its_own = self.records.take_log((topic, index), topic_id, and_forget=True)
        if not is_its_own:
            return
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

    def set_log_aside(self, topic: str, topic_id: UUID, index: int, suffix: str) -> str | None:
        """Close an open log, rename its folder, and return the new name; None if there is no folder.

        Blocking, not while it is written. Raises: StorageError.
        """
        key = topic, index
        log, is_its_own = self.records.take_log(key, topic_id)
        if not is_its_own:
            return None
        if log is not None:
            log.close()
        if key not in self._folder_names():
            return None
        folder = self._folder(key)
        if folder.topic_id not in {None, topic_id}:
            return None
        return self.set_aside(folder, suffix)

    def set_aside(self, folder: PartitionFolder, suffix: str) -> str:
        """Rename a folder that is not open, forget its records, and return its new name.

        If that name is used by a folder set aside earlier, another name is chosen. Raises: StorageError.
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
        self.records.forget((folder.topic, folder.index))
        return path

    def checkpoint(self) -> None:
        """Keep every log's start and recovery point on the disk. Blocking. Raises: StorageError."""
        with self._checkpointing:
            found, stale = self.records.checkpoint()
            self._replace(LOG_START_OFFSETS, encode_offset_checkpoint(found.log_start_offsets))
            self._replace(SYNCED_OFFSETS, encode_offset_checkpoint(found.synced_offsets))
            self._replace(RECOVERY_POINTS, encode_offset_checkpoint(found.recovery_points))
            if stale:
                self._replace(CLEANER_OFFSETS, encode_offset_checkpoint(found.cleaner_offsets))
            self.records.checkpoint_written(stale)

    def save_cleaner_offset(self, topic: str, index: int, offset: int, *, cleaned: PartitionLog) -> None:
        """Write to disk where a log's next compaction starts, unless another log has its name by now.

        Blocking. Raises: StorageError.
        """
        with self._checkpointing:
            if self.records.set_cleaner_offset((topic, index), offset, cleaned):
                self._replace(CLEANER_OFFSETS, encode_offset_checkpoint(self.records.cleaner_offsets()))

    def close(self, when_sound: Callable[[], None] = lambda: None, close_all: CloseAll = map) -> None:
        """Close every log and, if all succeeded, mark the shutdown as clean; release the lock.

        `when_sound` is called in between, once every log has all that is its own on the disk. `close_all`
        may close many logs at once: the disk is quicker with them than one by one. A start that is still
        checking the logs after an unclean stop neither calls `when_sound` nor marks its own stop as clean.
        Raises: StorageError of the first log that failed, after all were closed.
        """
        if self._lock is None:
            return
        logs = self.records.open_logs()
        failures = [failure for failure in close_all(_close, logs.values()) if failure is not None]
        try:
            self.checkpoint()
            # A log that was not opened at all, after an unclean shutdown, is still to be recovered.
            unopened = set(self._folder_names()) - logs.keys()
            if not failures and (self.is_clean or not self.records.is_checking):
                when_sound()
                if all(map(self._is_known_sound, unopened)):
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
