"""`flush.ms`: where answers do not wait for the disk, records wait no longer than this for their sync."""

from collections.abc import Callable

from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.roles import Committed
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.storage import StorageError

NEVER_MS = 2**63 - 1


class SyncTimers:
    """One timer per partition that has records not yet synced. It belongs to the loop's thread."""

    def __init__(self, timers: Timers, clock: Clock, request: Callable[[Partition, Committed], None]) -> None:
        """`request` has a partition flushed."""
        self._timers = timers
        self._clock = clock
        self._request = request
        self._set: set[Partition] = set()

    def written(self, partition: Partition) -> None:
        """Note that records were written without a sync: the oldest of them decides when one is due."""
        flush_ms = partition.config.flush_ms
        if flush_ms == NEVER_MS or partition in self._set:
            return
        self._set.add(partition)
        deadline_ms = self._clock.now_ms() + flush_ms
        self._timers.set(("sync", partition), deadline_ms, lambda: self._due(partition))

    def changed(self, partition: Partition) -> None:
        """Note that a partition's settings have changed: pending syncs follow the new ones."""
        self._set.discard(partition)
        self._timers.cancel(("sync", partition))
        self.written(partition)

    def _due(self, partition: Partition) -> None:
        self._set.discard(partition)
        if partition.deleted or partition.offline is not None:
            return
        partition.sync_due = True
        self._request(partition, _told_elsewhere)


def _told_elsewhere(_error: StorageError | None) -> None:
    """A failed sync takes the partition offline; the log and its clients get the error."""
