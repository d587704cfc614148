"""A partition's log as replication counts it: by records that are as durable as their topic asks."""

from typing import TYPE_CHECKING

from kohort.storage import PartitionLog

if TYPE_CHECKING:
    from kohort.broker.partitions.partition import Partition


class ReplicaLog:
    """One log, from its opening: a reopened partition has another."""

    __slots__ = ("_log", "_partition", "end_offset_for_epoch")

    def __init__(self, partition: "Partition", log: PartitionLog) -> None:
        self._partition = partition
        self._log = log
        self.end_offset_for_epoch = log.end_offset_for_epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record, including staged ones."""
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before is on the disk, or only written if the topic asks for no more."""
        return self._log.flushed_offset if self._partition.durable else self._log.written_offset

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch, -1 if there is none."""
        return self._log.latest_epoch
