"""A clock with real time that a test can advance, for the broker and for trio."""

import threading
import time
from collections.abc import Callable, Iterable

import trio


class MovableClock(trio.abc.Clock):
    """The clock of the broker and of trio: real time plus the time that a test has added. Any thread.

    Elapsed time and wall time both advance, so sessions, delays, retention and expiry all see it.
    """

    def __init__(self) -> None:
        self._began_ns = time.monotonic_ns()
        self._offset_ns = time.time_ns() - self._began_ns
        self._ahead_ns = 0
        self._lock = threading.Lock()

    @property
    def ahead_seconds(self) -> float:
        """How far it is ahead of real time, in seconds."""
        return self._ahead_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Add seconds to the time. The caller must wake tasks that wait on this clock."""
        assert seconds >= 0
        with self._lock:
            self._ahead_ns += round(seconds * 1e9)

    # -- the broker's ---------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return elapsed time in milliseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns + self._ahead_ns) // 1_000_000

    def wall_ms(self) -> int:
        """Return wall time in milliseconds since 1970."""
        return (time.time_ns() + self._ahead_ns) // 1_000_000

    # -- trio's ---------------------------------------------------------------------------------------

    def start_clock(self) -> None:
        """Do nothing: the clock runs already."""

    def current_time(self) -> float:
        """Return the seconds since this clock was created."""
        return (time.monotonic_ns() - self._began_ns + self._ahead_ns) / 1e9

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the real seconds until the deadline. `advance` needs a wake-up of the loop."""
        return deadline - self.current_time()


class BrokerClock:
    """`broker.clock`: the broker's time, which a test can advance."""

    def __init__(self, clock: MovableClock, advance: Callable[[float, Iterable[str]], None]) -> None:
        """`advance` adds seconds to the time, and keeps the members with these client ids alive."""
        self._clock = clock
        self._advance = advance

    def advance(self, seconds: float, *, alive: Iterable[str] = ()) -> None:
        """Advance the broker's time at once. Return when every timer that became due has run.

        Sessions end, delayed rebalances complete, offsets and segments expire. Clients keep their own time,
        so they send no heartbeats meanwhile. Members whose client ids are in `alive` keep their sessions.
        Raises: ValueError for a negative number.
        """
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s: give a positive number of seconds")
        self._advance(seconds, (alive,) if isinstance(alive, str) else tuple(alive))

    def time(self) -> float:
        """Return the broker's wall time, in seconds since 1970."""
        return self._clock.wall_ms() / 1_000
