"""The partitions with unsynced records that a power failure would lose, although other brokers count on them.

The settings at the time of a write can differ from today's: so the data folder notes on the disk,
before such a record is answered, that it has some. A start reads that note, and not the settings.
"""

from collections.abc import Callable

import structlog

from kohort.broker.partitions.partition import Partition
from kohort.storage import StorageError

log = structlog.get_logger("kohort.partition")


def _note_nothing(has_unsynced: bool) -> None:
    """Keep nothing: a single broker has no other replicas to compare with."""


class Unsynced:
    """The partitions that were written without a sync since they were strict. The loop's thread."""

    def __init__(
        self, note: Callable[[bool], None] = _note_nothing, note_failed: Callable[[], None] = lambda: None
    ) -> None:
        """`note` keeps on disk whether others replicate one of them, `note_failed` that such a log failed.

        Both may raise StorageError.
        """
        self._note = note
        self._note_failed = note_failed
        self._partitions: set[Partition] = set()
        self._is_noted = False

    def may_leave(self, partition: Partition) -> bool:
        """Return whether a write may be answered without a sync: the folder says that it has some.

        If the disk refuses that note, new records are synced instead.
        """
        if partition in self._partitions:
            return True
        if partition.replicated and not self._is_noted and not self._keep(True):
            return False
        self._partitions.add(partition)
        return True

    def became_replicated(self, partition: Partition) -> bool:
        """Return whether the folder has the note of a partition that other brokers now replicate.

        Where it does not, the caller has the partition synced.
        """
        if partition not in self._partitions or self._is_noted or self._keep(True):
            return True
        self._partitions.discard(partition)  # Its next write asks again.
        return False

    def synced(self, partition: Partition) -> None:
        """Note that all of a log is on the disk, and that its topic asks for that from now on."""
        if partition in self._partitions:
            self._partitions.discard(partition)
            if self._is_noted and not any(each.replicated for each in self._partitions):
                self._keep(False)

    def note_synced(self, partition: Partition) -> None:
        """Forget a partition that is strict by now, and completely on the disk."""
        serving_log = partition.serving_log
        if not partition.durable or serving_log is None:
            return
        if serving_log.flushed_offset == serving_log.written_offset:
            self.synced(partition)

    def failed(self, partition: Partition) -> None:
        """Note that a log has failed: its unsynced records may be gone, although the process lives."""
        if partition in self._partitions and partition.replicated:
            try:
                self._note_failed()
            except StorageError as error:
                log.error("the failure of a log cannot be noted in the data folder", error=str(error))

    def _keep(self, has_unsynced: bool) -> bool:
        try:
            self._note(has_unsynced)
        except StorageError as error:
            log.error("the data folder cannot note whether it has unsynced records", error=str(error))
            return False
        self._is_noted = has_unsynced
        return True
