"""Requests that wait until every replica of some partitions starts at an offset: then deleted records stay
deleted.

Source: kafka.server.DelayedDeleteRecords.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.waits import TaskWait
from kohort.broker.runtime.workers import Workers

if TYPE_CHECKING:  # A broker alone has no use for it.
    from kohort.broker.replication import Leadership


class Start(msgspec.Struct, frozen=True):
    """Where a partition is to begin on all its replicas, as long as it is led so."""

    partition: Partition
    leadership: "Leadership"
    offset: int

    @property
    def is_over(self) -> bool:
        """Whether this broker has lost that leadership."""
        return self.partition.leadership is not self.leadership

    @property
    def is_everywhere(self) -> bool:
        """Whether all replicas that count begin there, or behind."""
        return self.leadership.low_watermark >= self.offset


async def until_everywhere(starts: Sequence[Start], timeout_ms: int, workers: Workers) -> None:
    """Return once each start is everywhere, or over; or after that time."""
    with workers.move_on_after(max(0, timeout_ms) / 1_000):
        while waiting := [each for each in starts if not (each.is_over or each.is_everywhere)]:
            event = workers.event()
            wait = TaskWait(event)
            for each in waiting:
                each.partition.start_waits[wait] = None
            try:
                await event.wait()
            finally:
                for each in waiting:
                    each.partition.start_waits.pop(wait, None)
