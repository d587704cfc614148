"""What replication asks of a partition's log. `kohort.storage.PartitionLog` says all of it."""

from typing import Protocol


class ReplicatedLog(Protocol):
    """Offsets and leader epochs of one log; nothing here does I/O."""

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""
        ...

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""
        ...

    @property
    def flushed_offset(self) -> int:
        """Everything before is on the disk."""
        ...

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch, -1 if there is none."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch` and where it ends; (-1, -1) when unknown."""
        ...
