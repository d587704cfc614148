"""The interface of a partition to its broker."""

from typing import NamedTuple, Protocol, TypeVar

from kohort.storage import PartitionLog, StorageError

PartitionT_contra = TypeVar("PartitionT_contra", contravariant=True)


class OpenedLog(NamedTuple):
    """A log that was opened."""

    log: PartitionLog
    lost_tail: bool = False
    """Whether it lacks records that its disk had confirmed."""


class NameTaken(StorageError):
    """Files of a deleted topic still have the partition's name; they are being removed."""


class PartitionHost(Protocol[PartitionT_contra]):
    """Opens the logs of partitions, and is told about their events."""

    reports_lost_tails: bool
    """Whether `lost_tail` raises the leader epoch."""

    def open_log(self, partition: PartitionT_contra, /) -> OpenedLog:
        """Return the partition's log at its first use. Any thread. Raises: StorageError, NameTaken."""
        ...

    def log_opened(self, partition: PartitionT_contra, /) -> None:
        """Note that the log is open, or is open again. Any thread."""
        ...

    def log_failed(self, partition: PartitionT_contra, /) -> None:
        """Open the log again. Any thread."""
        ...

    def lost_tail(self, partition: PartitionT_contra, /) -> None:
        """Request a newer leader epoch: the open log lacks confirmed records. Any thread."""
        ...

    def epoch_behind(self, partition: PartitionT_contra, epoch: int, /) -> None:
        """Raise the leader epoch in the metadata above this one, which the log has. Any thread."""
        ...

    def synced(self, partition: PartitionT_contra, /) -> None:
        """Note that more of a replicated log is as durable as its topic asks. The loop's thread."""
        ...
