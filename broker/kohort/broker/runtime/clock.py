"""Time, injected: everything that asks what time it is asks a `Clock`."""

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970 that never go backwards."""

    def now_ms(self) -> int:
        """Return the present time in milliseconds since 1970."""
        ...


class SystemClock:
    """Wall time at the start, moved on by the monotonic clock.

    A wall clock that is set back would let sessions live on and timers sleep; this one can't be.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the present time in milliseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000


class ManualClock:
    """A clock that a test moves by hand."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that the test has set."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` milliseconds pass."""
        assert by_ms >= 0
        self._now_ms += by_ms
