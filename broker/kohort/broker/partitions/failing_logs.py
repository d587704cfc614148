"""Logs that cannot be written: a full or broken disk lets a log open, and fails each write."""

from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.clock import Clock

FORGOTTEN_MS = 10_000


class FailingLogs:
    """The partitions whose logs have failed, until a write succeeds. The loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[Partition, tuple[int, int]] = {}  # When each failed first, and last, in a row.

    def failed(self, partition: Partition) -> None:
        """Note that a log has failed, or could not be opened again."""
        now_ms = self._clock.now_ms()
        self._failing[partition] = self._failing.get(partition, (now_ms, now_ms))[0], now_ms

    def have_failed_for(self, ms: int) -> bool:
        """Return whether a log has accepted nothing for so long, although it was opened again meanwhile.

        One that is open, and has not failed for `FORGOTTEN_MS`, may take something by now.
        """
        now_ms, failing = self._clock.now_ms(), self._failing
        for partition, (_, last_ms) in list(failing.items()):
            is_open = partition.offline is None and now_ms - last_ms > FORGOTTEN_MS
            if is_open or not partition.failures or partition.deleted:
                del failing[partition]
        return any(
            now_ms - first_ms >= ms and (each.failures > 1 or each.offline is not None)
            for each, (first_ms, _) in failing.items()
        )
