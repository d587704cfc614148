"""What a partition asks of the broker that has it."""

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
    """Opens the logs of partitions, and is told what happens to them."""

    reports_lost_tails: bool
    """Whether `lost_tail` brings a newer leader epoch."""

    def open_log(self, partition: PartitionT_contra, /) -> OpenedLog:
        """Return the partition's log at its first use. Any thread. Raises: StorageError, NameTaken."""
        ...

    def log_opened(self, partition: PartitionT_contra, /) -> None:
        """Note that the log is open, or is open again. Any thread."""
        ...

    def log_failed(self, partition: PartitionT_contra, /) -> None:
        """Have the log opened again. Any thread."""
        ...

    def lost_tail(self, partition: PartitionT_contra, /) -> None:
        """Ask for a newer leader epoch: the log, which is open, lacks what it had confirmed. Any thread."""
        ...

    def epoch_behind(self, partition: PartitionT_contra, epoch: int, /) -> None:
        """Have the metadata raise their leader epoch above this one, which is known here. Any thread."""
        ...

    def synced(self, partition: PartitionT_contra, /) -> None:
        """Note that more of a replicated log is as durable as its topic asks. The loop's thread."""
        ...
