"""Time, injected: everything that asks what time it is asks a `Clock`.

There are two. Elapsed time orders what happens in this process: sessions, timers, deadlines. Wall time is
what records carry, what producers agree on, what retention counts. They part where a machine was suspended
or its clock was set.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Elapsed time and wall time, both in milliseconds since 1970."""

    def now_ms(self) -> int:
        """Return elapsed time, which never goes backwards and never jumps: for sessions and deadlines."""
        ...

    def wall_ms(self) -> int:
        """Return wall time, which is comparable between machines and may be set: for stored values."""
        ...


class SystemClock:
    """Elapsed time is the wall time at the start, moved on by the monotonic clock.

    A wall clock that is set back would prolong sessions and timers, one that is set forward, or
    a suspended machine, would end every session at once.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the elapsed time in milliseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def wall_ms(self) -> int:
        """Return the time of the system's clock in milliseconds since 1970."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that a test moves by hand."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self.wall_ahead_ms = 0
        """By how much wall time differs: as if the clock had been set since the start."""

    def now_ms(self) -> int:
        """Return the time that the test has set."""
        return self._now_ms

    def wall_ms(self) -> int:
        """Return the wall time that the test has set."""
        return self._now_ms + self.wall_ahead_ms

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` milliseconds pass."""
        assert by_ms >= 0
        self._now_ms += by_ms
