"""Timers by key: a heap in which a cancelled or moved entry stays until its time and is passed over.

Such an entry holds nothing: clients say for how long they wait, and may go away at once.
"""

import heapq
import math
from collections.abc import Callable, Hashable
from typing import Any, cast

Action = Callable[[], None]
Entry = list[Any]
"""Its due time, its position among those due then, its key, its action, and whether the action gets the key.

The action is None if it was cancelled or moved.
"""
STALE_PLACES_MIN = 1_024  # The heap is rebuilt when more entries than this, and most, are stale.


class Timers:
    """Actions with a due time; one entry per key, the newest wins."""

    def __init__(self, on_earlier: Callable[[], None] | None = None) -> None:
        """Call `on_earlier` whenever a timer is set that is due before all others."""
        self._on_earlier = on_earlier
        self._heap: list[Entry] = []
        self._entries: dict[Hashable, Entry] = {}
        self._sequence = 0
        self.earliest_ms: float = math.inf
        """Before this time nothing is due. A cancelled timer may have left it too early."""
        self.before_due: Callable[[], object] | None = None
        """Called before any due action runs; it may cancel some of them."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def heap_size(self) -> int:
        """How many places the heap has, those of timers that are gone included."""
        return len(self._heap)

    def set(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Let `action` run at `deadline_ms`; an earlier timer of the same key is replaced."""
        self._set(key, deadline_ms, action, False)

    def set_with_key(self, key: Hashable, deadline_ms: int, action: Callable[[Any], object]) -> None:
        """Run `action` with `key`: thousands of timers can share one action."""
        self._set(key, deadline_ms, action, True)

    def _set(self, key: Hashable, deadline_ms: int, action: Callable[..., object], passes_key: bool) -> None:
        entries, heap = self._entries, self._heap
        before = entries.get(key)
        if before is not None:
            before[2] = before[3] = None
        self._sequence = sequence = self._sequence + 1
        # One list for both: a coordinator has a timer for each member.
        entries[key] = entry = [deadline_ms, sequence, key, action, passes_key]
        heapq.heappush(heap, entry)
        if len(heap) > STALE_PLACES_MIN and len(heap) > STALE_PLACES_MIN + 2 * len(entries):
            self._heap = heap = list(entries.values())
            heapq.heapify(heap)
            entry = heap[0]
        if deadline_ms < self.earliest_ms:  # noqa: PLR1730 - A call less.
            self.earliest_ms = deadline_ms
        if self._on_earlier is not None and heap[0] is entry:
            self._on_earlier()

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry[2] = entry[3] = None

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer is due, or None without one."""
        while self._heap:
            entry = self._heap[0]
            if entry[3] is not None:
                return cast("int", entry[0])
            heapq.heappop(self._heap)
        return None

    def run_due(self, now_ms: int) -> int:
        """Run every action whose time has come, in order of time; return how many."""
        if self.before_due is not None:
            self.before_due()
        count = 0
        try:
            while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
                _, _, key, action, passes_key = heapq.heappop(self._heap)
                del self._entries[key]
                if passes_key:
                    action(key)
                else:
                    action()
                count += 1
        finally:  # An action that raises leaves the others to the next round.
            next_ms = self.next_deadline_ms()
            self.earliest_ms = math.inf if next_ms is None else next_ms
        return count
