"""What a data folder knows about each partition's log, open or not: one record per log."""

from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from kohort.storage.layout import TopicPartition
from kohort.storage.partition_log import PartitionLog


class LogRecord:
    """One log. Offsets are None until a checkpoint file or an open log has given them."""

    __slots__ = (
        "cleaner_offset",
        "had_failed",
        "is_known_sound",
        "is_opening",
        "known_end",
        "log",
        "log_start_offset",
        "recovery_point",
        "synced_offset",
    )

    def __init__(self) -> None:
        self.log: PartitionLog | None = None
        """The log while it is open."""
        self.recovery_point: int | None = None
        self.log_start_offset: int | None = None
        self.synced_offset: int | None = None
        """How far the log was on the disk: a log that ends before has lost records."""
        self.cleaner_offset: int | None = None
        """Where the next round of compaction starts."""
        self.known_end = 0
        """How far an open log was known to be on the disk when it was opened."""
        self.is_known_sound = False
        """Whether the log, which is not open, needs no recovery: since a stop, its creation or a note."""
        self.is_opening = False
        """Whether the log is being opened, which may turn out to be a recovery."""
        self.had_failed = False
        """Whether the log has failed: the cache may show bytes that are lost."""

    @property
    def end_on_disk(self) -> int:
        """How far the log is known to be on the disk."""
        return max(self.recovery_point or 0, self.synced_offset or 0)

    def note_offsets(self, log: PartitionLog) -> None:
        """Take the offsets of the open log."""
        self.recovery_point = log.recovery_point
        self.log_start_offset = log.log_start_offset
        self.synced_offset = log.flushed_offset


Offsets = dict[TopicPartition, int]


class Checkpoint(NamedTuple):
    """The contents of the checkpoint files."""

    recovery_points: Offsets
    log_start_offsets: Offsets
    synced_offsets: Offsets
    cleaner_offsets: Offsets

    def keys(self) -> set[TopicPartition]:
        """Return the partitions that any of the files names."""
        return {key for offsets in self for key in offsets}


class LogRecords:
    """The records of all logs of a data folder. Any thread; nothing here does I/O.

    Three threads use them, so that a lock is held for every look.
    """

    def __init__(self) -> None:
        self._records: dict[TopicPartition, LogRecord] = {}
        self._lock = Lock()
        self._stale: set[TopicPartition] = set()
        """Deleted partitions that the checkpoint files may still name."""
        self._missing: Offsets = {}
        """How far the logs were on the disk whose folders were missing at the start."""
        self.is_checking = False
        """Whether a start still looks for lost records: checkpoints keep what was known before it."""

    def load(self, found: Checkpoint, folders: Collection[TopicPartition]) -> None:
        """Take the checkpoint entries of the existing partitions.

        Entries of other partitions are stale since a crash.
        """
        present = dict.fromkeys(folders)
        self._stale = found.keys() - present.keys()
        ends = {key: max(offsets.get(key, 0) for offsets in found) for key in self._stale}
        self._missing = {key: end_offset for key, end_offset in ends.items() if end_offset}
        for key in present:
            record = self._records[key] = LogRecord()
            record.recovery_point = found.recovery_points.get(key)
            record.log_start_offset = found.log_start_offsets.get(key)
            record.synced_offset = found.synced_offsets.get(key)
            record.cleaner_offset = found.cleaner_offsets.get(key)

    def ends_on_disk(self) -> Mapping[TopicPartition, int]:
        """Return how far each log is known to be on the disk."""
        with self._lock:
            return {key: record.end_on_disk for key, record in self._records.items()}

    def end_on_disk(self, key: TopicPartition) -> int:
        """Return how far a log is known to be on the disk, 0 if nothing is known."""
        with self._lock:
            record = self._records.get(key)
            return 0 if record is None else record.end_on_disk

    def known_end(self, topic: str, index: int) -> int:
        """Return how far a log that was opened was known to be on the disk; a disk that lied has less."""
        with self._lock:
            record = self._records.get((topic, index))
            return 0 if record is None else record.known_end

    def begin_check(self) -> None:
        """Let checkpoints keep how far each log was on the disk before this start, even if it is shorter now.

        Otherwise the start after one that ended early would not find that records are lost.
        """
        self.is_checking = True

    def end_check(self) -> None:
        """Let checkpoints have what is on the disk: whether records are lost is noted elsewhere by now."""
        with self._lock:
            self.is_checking = False
            self._stale.update(self._missing)

    def is_missing(self, topic: str, index: int) -> bool:
        """Return whether the folder of a partition with records was missing at the start."""
        return (topic, index) in self._missing

    # -- open logs --------------------------------------------------------------------------------------

    def log(self, topic: str, index: int) -> PartitionLog | None:
        """Return a partition's log if it is open."""
        with self._lock:
            record = self._records.get((topic, index))
            return None if record is None else record.log

    def open_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that are open."""
        with self._lock:
            return {key: each.log for key, each in self._records.items() if each.log is not None}

    def begin_to_reopen(self, key: TopicPartition) -> PartitionLog | None:
        """Return a log that is open and has failed, to be closed and opened again; None for any other one."""
        with self._lock:
            record = self._records.get(key)
            if record is None or record.log is None:
                return None
            record.had_failed = True
            return record.log

    def begin_to_open(self, key: TopicPartition, before: PartitionLog | None) -> tuple[int, int]:
        """Return the recovery point and the log start offset for opening a log; `before` was closed."""
        with self._lock:
            record = self._records.setdefault(key, LogRecord())
            if before is not None:
                record.log = None
                record.note_offsets(before)
            record.is_opening = True
            return record.recovery_point or 0, record.log_start_offset or 0

    def opened(self, key: TopicPartition, log: PartitionLog) -> None:
        """Note a log that is open now."""
        with self._lock:
            record = self._records.setdefault(key, LogRecord())
            record.is_opening = record.is_known_sound = False
            log.may_rest = not record.had_failed
            record.known_end = record.end_on_disk
            record.log = log

    def take_log(
        self, key: TopicPartition, topic_id: UUID, *, and_forget: bool = False
    ) -> tuple[PartitionLog | None, bool]:
        """Return the log if it is open, and remove it from the records.

        With `and_forget` the record is removed too.
        The second value is False if the log belongs to another topic by now; it stays then.
        """
        with self._lock:
            record = self._records.get(key)
            log = None if record is None else record.log
            if log is not None and log.topic_id != topic_id:
                return log, False
            if record is not None:
                record.log = None
            if and_forget:
                self._forget(key)
            return log, True

    def forget(self, key: TopicPartition) -> PartitionLog | None:
        """Remove the record of a log, so that no other log of that name starts with it; return the log."""
        with self._lock:
            record = self._records.get(key)
            self._forget(key)
            return None if record is None else record.log

    def _forget(self, key: TopicPartition) -> None:
        self._records.pop(key, None)
        self._stale.add(key)

    # -- logs that need no recovery -----------------------------------------------------------------------

    def note_sound(self, keys: Iterable[TopicPartition]) -> None:
        """Note logs that are not open and need no recovery."""
        with self._lock:
            for key in keys:
                self._records.setdefault(key, LogRecord()).is_known_sound = True

    def doubt(self, key: TopicPartition) -> None:
        """Note that a log has to be recovered when it is opened."""
        with self._lock:
            record = self._records.get(key)
            if record is not None:
                record.is_known_sound = False

    def is_known_sound(self, key: TopicPartition) -> bool:
        """Return whether a log needs no recovery."""
        with self._lock:
            record = self._records.get(key)
            return record is not None and record.is_known_sound

    def rests(self, key: TopicPartition) -> bool:
        """Return whether a log needs no recovery, and is not being opened."""
        with self._lock:
            record = self._records.get(key)
            return record is not None and record.is_known_sound and not record.is_opening

    def unopened_sound(self) -> dict[TopicPartition, int]:
        """Return the logs that are not open and need no recovery, with how far each is on the disk."""
        with self._lock:
            return {
                key: record.end_on_disk
                for key, record in self._records.items()
                if record.is_known_sound and record.log is None
            }

    # -- checkpoints ------------------------------------------------------------------------------------

    def is_stale(self, keys: Iterable[TopicPartition]) -> bool:
        """Return whether the checkpoint files may name deleted partitions with these names."""
        with self._lock:
            return not self._stale.isdisjoint(keys)

    def checkpoint(self) -> tuple[Checkpoint, frozenset[TopicPartition]]:
        """Return the new content of the checkpoint files, and the stale partitions that they then omit."""
        with self._lock:
            for record in self._records.values():
                if record.log is not None:
                    record.note_offsets(record.log)
            items = self._records.items()
            synced = {key: each.synced_offset for key, each in items if each.synced_offset is not None}
            if self.is_checking:
                known = ((key, each.known_end) for key, each in items)
                for key, end_offset in (*known, *self._missing.items()):
                    if end_offset > synced.get(key, 0):
                        synced[key] = end_offset
            found = Checkpoint(
                {key: each.recovery_point for key, each in items if each.recovery_point is not None},
                # 0 unless noted.
                {key: each.log_start_offset for key, each in items if each.log_start_offset},
                synced,
                {key: each.cleaner_offset for key, each in items if each.cleaner_offset is not None},
            )
            return found, frozenset(self._stale)

    def checkpoint_written(self, stale: Collection[TopicPartition]) -> None:
        """Note that the checkpoint files do not name these deleted partitions any more."""
        with self._lock:
            self._stale.difference_update(stale)

    def cleaner_offset(self, topic: str, index: int) -> int | None:
        """Return where a log's next compaction starts, None if it was never compacted."""
        with self._lock:
            record = self._records.get((topic, index))
            return None if record is None else record.cleaner_offset

    def set_cleaner_offset(self, key: TopicPartition, offset: int, cleaned: PartitionLog) -> bool:
        """Note where a log's next compaction starts; return False if another log has its name by now."""
        with self._lock:
            record = self._records.get(key)
            if record is None or record.log is not cleaned:
                return False
            record.cleaner_offset = offset
            return True

    def cleaner_offsets(self) -> Offsets:
        """Return where the next compaction of each log starts."""
        with self._lock:
            items = self._records.items()
            return {key: each.cleaner_offset for key, each in items if each.cleaner_offset is not None}
