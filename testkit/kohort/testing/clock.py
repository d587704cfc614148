"""Time that runs as it does outside, and that a test can move on: for the broker, and for trio beneath it."""

import threading
import time
from collections.abc import Callable, Iterable

import trio


class MovableClock(trio.abc.Clock):
    """The broker's clock and trio's in one: real time, and what was added to it. Any thread.

    Elapsed time and wall time both move, so that sessions, delays, retention and expiry all see it.
    """

    def __init__(self) -> None:
        self._began_ns = time.monotonic_ns()
        self._offset_ns = time.time_ns() - self._began_ns
        self._ahead_ns = 0
        self._lock = threading.Lock()

    def move_on(self, seconds: float) -> None:
        """Let so many seconds have passed; whoever waits on this clock has to be woken by the caller."""
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
        """Begin: there is nothing to be done."""

    def current_time(self) -> float:
        """Return the seconds since this clock was made."""
        return (time.monotonic_ns() - self._began_ns + self._ahead_ns) / 1e9

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return for how long nothing can be due; whoever moves the clock on wakes the loop."""
        return deadline - self.current_time()


class BrokerClock:
    """`broker.clock`: what time it is for the broker, and how a test moves it on."""

    def __init__(self, clock: MovableClock, advance: Callable[[float, Iterable[str]], None]) -> None:
        """`advance` lets so many seconds pass, through which members of these client ids live."""
        self._clock = clock
        self._advance = advance

    def advance(self, seconds: float, *, alive: Iterable[str] = ()) -> None:
        """Let so many seconds pass at once; returns when every timer that became due has run.

        Sessions end, delayed rebalances complete, offsets and segments expire. Clients keep their own time:
        no heartbeat comes meanwhile. Members whose client ids are in `alive` count as heard of all the while.
        Raises: ValueError for fewer than none.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back, not by {-seconds} s")
        self._advance(seconds, (alive,) if isinstance(alive, str) else tuple(alive))

    def time(self) -> float:
        """Return the broker's wall time, in seconds since 1970."""
        return self._clock.wall_ms() / 1_000
