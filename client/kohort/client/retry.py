"""Deadlines, and how long to wait before the next attempt."""

import random
from time import monotonic_ns


def monotonic_ms() -> int:
    """Return milliseconds on a clock that never goes back."""
    return monotonic_ns() // 1_000_000


class Deadline:
    """A moment by which a call has to be done."""

    __slots__ = ("at_ms", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.at_ms = monotonic_ms() + timeout_ms

    @property
    def remaining_ms(self) -> float:
        """Milliseconds that are left, never below zero."""
        return max(0.0, self.at_ms - monotonic_ms())

    @property
    def passed(self) -> bool:
        """Whether the moment has passed."""
        return monotonic_ms() >= self.at_ms


def backoff_ms(failures: int, first_ms: int, most_ms: int) -> float:
    """Return the delay after so many failures: doubled each time, a fifth up or down."""
    return min(most_ms, first_ms << min(failures, 20)) * random.uniform(0.8, 1.2)


class Backoff:
    """Delays that double from `first_ms` to `most_ms`, and restart after a success."""

    __slots__ = ("_failures", "_first_ms", "_most_ms")

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failures = 0

    def next_ms(self) -> float:
        """Return the wait after one more failure."""
        self._failures += 1
        return backoff_ms(self._failures - 1, self._first_ms, self._most_ms)

    def reset(self) -> None:
        """Begin again with the shortest wait, after a success."""
        self._failures = 0
