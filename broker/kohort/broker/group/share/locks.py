"""When the locks end by which members of a share group hold records."""

from heapq import heapify, heappop, heappush, heapreplace

from kohort.broker.group.share.in_flight import InFlightBatch, InFlightBatches

LOCKS_PER_BATCH, LOCKS_KEPT = 4, 256
"""So many locks are kept that were renewed since, or whose records are done with; then all of them go."""


class Locks:
    """A heap of the ends of locks, each of a run of offsets. The batch says what holds."""

    __slots__ = ("_heap", "_in_flight")

    def __init__(self, in_flight: InFlightBatches) -> None:
        self._in_flight = in_flight
        self._heap: list[tuple[int, int, int]] = []

    def add(self, until_ms: int, first_offset: int, last_offset: int) -> None:
        """Add a lock; each acquired batch is in one or more."""
        heappush(self._heap, (until_ms, first_offset, last_offset))
        if len(self._heap) > LOCKS_PER_BATCH * len(self._in_flight) + LOCKS_KEPT:
            self._heap = [
                (each.lock_until_ms, each.first_offset, each.last_offset)
                for each in self._in_flight
                if each.is_held
            ]
            heapify(self._heap)

    def take_ended(self, now_ms: int) -> list[InFlightBatch]:
        """Return batches whose locks have expired, in the order of offsets."""
        ended: dict[int, InFlightBatch] = {}
        while self._heap and self._heap[0][0] <= now_ms:
            until_ms, first, last = heappop(self._heap)
            for batch in self._in_flight.between(first, last):
                if batch.lock_until_ms == until_ms and batch.is_held:
                    ended[batch.first_offset] = batch
        return [ended[first] for first in sorted(ended)]

    def next_timeout_ms(self) -> int | None:
        """Return when the first lock ends, or None if nothing is held that could come back."""
        while self._heap:
            until_ms, first, last = self._heap[0]
            for batch in self._in_flight.between(first, last):
                if batch.lock_until_ms == until_ms and batch.is_held:
                    if batch.first_offset > first:  # So that those before it are not checked again.
                        heapreplace(self._heap, (until_ms, batch.first_offset, last))
                    return until_ms
            heappop(self._heap)
        return None
