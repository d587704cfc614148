"""Timers by key: a heap in which a cancelled or moved entry stays until its time and is passed over."""

import heapq
import math
from collections.abc import Callable, Hashable
from typing import Any

Action = Callable[[], None]
STALE_PLACES_MIN = 1_024  # The heap is made anew when more places than this, and most, are stale.


class Timers:
    """What is to be done at which time; one entry per key, the newest wins."""

    def __init__(self, on_earlier: Callable[[], None] | None = None) -> None:
        """Call `on_earlier` whenever a timer is set that is due before all others."""
        self._on_earlier = on_earlier
        self._heap: list[tuple[int, int, Hashable]] = []
        self._entries: dict[Hashable, tuple[int, int, Callable[..., object], bool]] = {}
        self._sequence = 0
        self.earliest_ms: float = math.inf
        """Before this time nothing is due. A timer that was cancelled may have left it too early."""
        self.before_due: Callable[[], object] | None = None
        """Called before anything that is due is done; it may cancel some of that."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def heap_size(self) -> int:
        """How many places the heap has, those of timers that are gone included."""
        return len(self._heap)

    def set(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Let `action` run at `deadline_ms`; an earlier timer of the same key is replaced."""
        self._set(key, deadline_ms, action, is_told=False)

    def set_told(self, key: Hashable, deadline_ms: int, action: Callable[[Any], object]) -> None:
        """Let `action` run with `key`: thousands of timers share one that way, and none has its own."""
        self._set(key, deadline_ms, action, is_told=True)

    def _set(self, key: Hashable, deadline_ms: int, action: Callable[..., object], *, is_told: bool) -> None:
        self._sequence += 1
        self._entries[key] = (deadline_ms, self._sequence, action, is_told)
        entry = (deadline_ms, self._sequence, key)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > STALE_PLACES_MIN + 2 * len(self._entries):
            self._heap = [(each[0], each[1], name) for name, each in self._entries.items()]
            heapq.heapify(self._heap)
            entry = self._heap[0]
        self.earliest_ms = min(self.earliest_ms, deadline_ms)
        if self._on_earlier is not None and self._heap[0] is entry:
            self._on_earlier()

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        self._entries.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer is due, or None where there is none."""
        while self._heap:
            deadline_ms, sequence, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[1] == sequence:
                return deadline_ms
            heapq.heappop(self._heap)
        return None

    def run_due(self, now_ms: int) -> int:
        """Run every action whose time has come, in order of time; return how many."""
        if self.before_due is not None:
            self.before_due()
        count = 0
        try:
            while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
                _, _, key = heapq.heappop(self._heap)
                _, _, action, is_told = self._entries.pop(key)
                if is_told:
                    action(key)
                else:
                    action()
                count += 1
        finally:  # An action that raises leaves the others to the next round.
            next_ms = self.next_deadline_ms()
            self.earliest_ms = math.inf if next_ms is None else next_ms
        return count
