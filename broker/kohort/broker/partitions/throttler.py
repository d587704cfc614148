"""How fast a worker thread may go: it gives the loop its turns, and keeps to a rate."""

import time
from collections.abc import Callable

WORK_SECONDS = 0.0005  # So long at most the loop waits for the interpreter's lock, where 5 ms are usual.
REST_SECONDS = 0.0001
SLEEP_SECONDS_MAX = 0.1  # The interval of checks for a cancellation.


class Throttler:
    """Told of bytes, it sleeps often and shortly, and for as long as a rate asks. Kafka: utils.Throttler."""

    def __init__(self, bytes_per_second: float, check: Callable[[], None]) -> None:
        """Call `check` about every half millisecond of work; it may raise."""
        self._bytes_per_second = max(bytes_per_second, 1.0)
        self._check = check
        self._began = self._rested = time.monotonic()
        self._bytes = 0

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were read or written, and rest if it is time to."""
        self._bytes += size_bytes
        now = time.monotonic()
        ahead_seconds = self._bytes / self._bytes_per_second - (now - self._began)
        if ahead_seconds <= 0 and now - self._rested < WORK_SECONDS:
            return
        self._check()
        time.sleep(REST_SECONDS)  # The loop gets the interpreter's lock meanwhile.
        while ahead_seconds > 0:
            pause_seconds = min(ahead_seconds, SLEEP_SECONDS_MAX)
            time.sleep(pause_seconds)  # This is what keeps the rate down.
            self._check()
            ahead_seconds -= pause_seconds
        self._rested = time.monotonic()
