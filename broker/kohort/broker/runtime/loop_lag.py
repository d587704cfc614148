"""How late the loop is: a task asks to be woken at a time, and sees when it is.

HTTP requests share the broker's loop, so a blocked loop answers nobody: it can only be
reported that it was blocked a moment ago, and for how long.
"""

from collections import deque
from collections.abc import Callable

from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers

INTERVAL_SECONDS = 0.5
WINDOW_SECONDS = 60.0
LATE_SECONDS_MAX = 5.0
LATE_FOR_SECONDS = 10.0  # So long after it a loop that was too late makes the broker not ready.


class LoopLag:
    """The latenesses of the last minute. The loop's thread only."""

    def __init__(self, workers: Workers, now_ms: Callable[[], int]) -> None:
        """`now_ms` is elapsed time, which no setting of a clock moves."""
        self._workers = workers
        self._now_ms = now_ms
        self._seen: deque[tuple[int, float]] = deque()

    async def run(self, part: Watched = UNWATCHED) -> None:
        """Measure again and again, until cancelled."""
        while True:
            asked_ms = self._now_ms()
            await self._workers.sleep(INTERVAL_SECONDS)
            late_ms = self._now_ms() - asked_ms - INTERVAL_SECONDS * 1000
            self.note(max(0.0, late_ms / 1000))

    def note(self, seconds: float) -> None:
        """Note the current delay of the loop; values older than the window are forgotten."""
        now_ms = self._now_ms()
        self._seen.append((now_ms, seconds))
        while self._seen[0][0] < now_ms - WINDOW_SECONDS * 1000:
            self._seen.popleft()

    @property
    def seconds_max(self) -> float:
        """The most that the loop was late in the last minute."""
        return max((seconds for _, seconds in self._seen), default=0.0)

    def reason(self) -> str | None:
        """Return why the broker is not ready for the loop's sake, or None."""
        since_ms = self._now_ms() - LATE_FOR_SECONDS * 1000
        worst = max((seconds for at_ms, seconds in self._seen if at_ms >= since_ms), default=0.0)
        return f"event loop: stood still for {worst:.0f} s a moment ago" if worst > LATE_SECONDS_MAX else None
