"""The files behind the partitions: how a log is opened, and how it leaves the disk."""

from collections.abc import Callable, Iterable
from threading import Lock
from uuid import UUID, uuid4

import structlog

from kohort.broker.metadata import Snapshot
from kohort.broker.partitions.host import NameTaken, OpenedLog
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.storage import DataDirectory, PartitionLog, StorageError
from kohort.storage.folders import PartitionFolder, holds_records
from kohort.storage.journal import Journal
from kohort.storage.layout import TopicPartition, log_id_of

STRAY_SUFFIX = "-stray"


log = structlog.get_logger("kohort.partition")


class LogFiles:
    """Opens and deletes logs in the data folder. Any thread; each method blocks."""

    def __init__(self, data: DataDirectory, journal: Journal) -> None:
        self._data = data
        self._journal = journal
        self._deletions: dict[TopicPartition, dict[Partition, bool]] = {}
        """By name, which partitions are to be deleted, and whether their files are kept."""
        self._announcing = Lock()
        self._checkpointing = Lock()
        self._creating = Lock()
        self._pending_creation: set[tuple[str, int]] = set()
        self.is_short = False
        """Whether an opened log lacks records that were on the disk."""

    @property
    def clean(self) -> bool:
        """Whether the last stop was a clean one, so that logs need no recovery."""
        return self._data.is_clean

    def is_sound(self, partition: Partition) -> bool:
        """Whether all of the log is known to be in its own files, so that it is opened at its first use."""
        end_offset = self._data.sound_end(partition.topic, partition.topic_id, partition.index)
        if end_offset is None:
            return False
        return self._journal.end_offset(log_id_of(partition.topic_id, partition.index)) <= end_offset

    def open(self, partition: Partition, *, again: bool = False) -> OpenedLog:
        """Return the partition's log, made if need be; `again` is after a failure of the one before.

        Raises: StorageError, NameTaken if it is worth trying again soon.
        """
        if (partition.topic, partition.index) in self._deletions:
            raise NameTaken(f"{partition.topic}-{partition.index} of a deleted topic is still being removed")
        if (partition.topic, partition.index) in self._pending_creation:
            with self._creating:  # The first caller makes the folder; the other finds it.
                self._pending_creation.discard((partition.topic, partition.index))
                return self._open(partition, again=again)
        return self._open(partition, again=again)

    def _open(self, partition: Partition, *, again: bool) -> OpenedLog:
        config = log_config_of(partition.config)
        opened = self._data.open_log(partition.topic, partition.topic_id, partition.index, config)
        if again:
            self._journal.recall((opened.log_id,))
        known_end = max(
            self._data.records.known_end(partition.topic, partition.index),
            self._journal.end_offset(opened.log_id),
        )
        self._journal.restore(opened)
        for begin, end_offset in opened.gaps:
            log.error(
                "a sealed segment was cut short, and its records are lost",
                topic=partition.topic,
                partition=partition.index,
                first_offset=begin,
                next_offset=end_offset,
            )
        is_short = opened.log_end_offset < known_end
        if is_short or opened.gaps or self._data.records.is_missing(partition.topic, partition.index):
            self.is_short = True  # Never `|=`: another thread may set it in the meantime.
        if is_short:
            log.error(
                "the disk has lost records that it had confirmed",
                topic=partition.topic,
                partition=partition.index,
                log_end_offset=opened.log_end_offset,
                confirmed_offset=known_end,
            )
        # If other replicas have the records missing in a gap, they are fetched first.
        return OpenedLog(opened, is_short or (again and bool(opened.gaps) and partition.replicated))

    def is_journaled(self, opened: PartitionLog) -> bool:
        """Whether a start would find batches of the log in the journal."""
        return self._journal.may_name(opened.log_id)

    def serves_again(self, opened: PartitionLog) -> None:
        """Note that a failed log is used again: it has restored its entries of the journal."""
        self._journal.drop(opened.log_id)

    def forget_journal(self, closed: Iterable[Partition]) -> None:
        """Drop the entries that a start found in the journal, except those of these partitions."""
        self._journal.forget(but={log_id_of(each.topic_id, each.index) for each in closed})

    def announce_creation(self, partitions: Iterable[Partition]) -> None:
        """Keep from being opened, while `create` makes them, the folders of these new partitions."""
        self._pending_creation.update((each.topic, each.index) for each in partitions)

    def create(self, partitions: Iterable[Partition]) -> None:
        """Make the folders of partitions that came: together that takes a fraction of one by one.

        Raises: StorageError.
        """
        with self._creating:
            keys = self._pending_creation - self._deletions.keys()
            coming = [each for each in partitions if (each.topic, each.index) in keys]
            try:
                self._data.create_partitions([(each.topic, each.topic_id, each.index) for each in coming])
            finally:
                self._pending_creation.difference_update((each.topic, each.index) for each in partitions)

    def announce_deletion(self, partition: Partition, *, is_kept: bool = False) -> None:
        """Keep the partition's name from being used again until `delete` has removed the files.

        With `is_kept` they are set aside instead.
        """
        with self._announcing:
            deletions = self._deletions.setdefault((partition.topic, partition.index), {})
            deletions[partition] = is_kept

    def delete(self, partition: Partition) -> None:
        """Remove the partition's files.

        Files that can't be removed are logged, and removed at the next start.
        Until then it has another name, so that it is in no new topic's way: a full disk opens no log, but
        renames a folder.
        """
        partition.open()  # It is deleted, so this only waits for a thread that may be opening it now.
        key = partition.topic, partition.index
        is_kept = self._deletions.get(key, {}).get(partition, False)
        try:
            self._remove_files(partition, is_kept=is_kept)
        except StorageError as error:
            log.error("files can't be removed", topic=key[0], partition=key[1], error=str(error))
            self._put_off(partition, is_kept=is_kept)
        finally:
            with self._announcing:
                deletions = self._deletions.get(key, {})
                deletions.pop(partition, None)
                if not deletions:
                    self._deletions.pop(key, None)

    def _remove_files(self, partition: Partition, *, is_kept: bool) -> None:
        """Remove the partition's files, or set them aside. Raises: StorageError."""
        topic, index = partition.topic, partition.index
        present = self._data.records.log(topic, index)
        if present is not None and present.topic_id != partition.topic_id:
            return  # Its files are gone already, or never existed: these are of another topic with its name.
        if is_kept:
            self._set_log_aside(partition)
            return
        if present is None:
            self._data.open_log(topic, partition.topic_id, index, log_config_of(partition.config))
        self._data.delete_log(topic, index)

    def _set_log_aside(self, partition: Partition) -> None:
        """Close the partition's log and rename its folder. Raises: StorageError."""
        suffix = f".{partition.topic_id.hex}{STRAY_SUFFIX}"
        folder = self._data.set_log_aside(partition.topic, partition.topic_id, partition.index, suffix)
        if folder is not None:
            log.warning(
                "a partition is not in the reloaded metadata, and its folder is set aside",
                topic=partition.topic,
                partition=partition.index,
                folder=folder,
            )

    def put_off_deletions(self) -> None:
        """Leave to the next start what `delete` was announced for and has not come to; for the stop."""
        for deletions in self._deletions.values():
            for partition, is_kept in deletions.items():
                self._put_off(partition, is_kept=is_kept)
        self._deletions.clear()

    def _put_off(self, partition: Partition, *, is_kept: bool) -> None:
        if is_kept:
            return  # A start sets aside what belongs to no topic.
        topic, index = partition.topic, partition.index
        try:
            self._data.delete_at_next_start(topic, partition.topic_id, index)
        except StorageError as error:
            log.error("files can't be removed", topic=topic, partition=index, error=str(error))

    def was_cut(self, partition: Partition) -> None:
        """Note that a follower's log was cut: it is shorter than it was, and has lost nothing.

        Raises: StorageError.
        """
        with self._checkpointing:
            self._data.was_cut(partition.topic, partition.index)

    def check_present(self) -> None:
        """Raise StorageError where the data folder is gone."""
        self._data.check_present()

    def checkpoint(self) -> None:
        """Keep the start of every log on the disk. Raises: StorageError."""
        with self._checkpointing:
            self._data.checkpoint()

    def note_resting_logs(self) -> None:
        """Keep on the disk which logs a start after a crash need not open. Raises: StorageError."""
        self._data.note_resting_logs()

    def set_strays_aside(
        self, snapshot: Snapshot, is_here: Callable[[TopicPartition], bool] = lambda key: True
    ) -> None:
        """Rename folders whose topics are not in the metadata: a deletion that a crash cut short.

        The same holds for partitions that are only on other brokers: a crash interrupted the move.

        Kafka does the same, and deletes nothing that it does not know. Raises: StorageError.
        """
        topic_ids = {name: topic.topic_id for name, topic in snapshot.topics.items()}
        for folder in self._data.strays(topic_ids, is_here):
            expected = topic_ids.get(folder.topic) if is_here((folder.topic, folder.index)) else None
            if folder.topic_id is None and self._has_lost_only_its_id(folder, expected):
                continue  # Opening the log writes it again.
            suffix = f".{(folder.topic_id or uuid4()).hex}{STRAY_SUFFIX}"
            log.warning("a folder belongs to no topic and is set aside", folder=f"{folder.path}{suffix}")
            self._data.set_aside(folder, suffix)

    def _has_lost_only_its_id(self, folder: PartitionFolder, topic_id: UUID | None) -> bool:
        """Whether a folder without an id has no records, or those of this topic. Raises: StorageError.

        The id is on the disk before any record is acknowledged, unless the journal has all of the records.
        Then it has the id as well.
        """
        if topic_id is not None and self._journal.end_offset(log_id_of(topic_id, folder.index)):
            return True
        return not holds_records(self._data.file_system, folder)
