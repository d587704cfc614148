"""How much a destination is given at once: pure, time passed in.

How many at once follows the latency (`Concurrency`), how many a second is set (`Rate`), and a destination in
trouble is left alone for a while (`Breaker`).
"""

from enum import Enum

from kohort.queues.forward.settings import Destination

FIRST_LIMIT = 8
TOLERANCE = 2.0  # Latencies up to so many times the usual best one let more in.
SMOOTHING = 0.05
LATENCY_SMOOTHING = 0.1
DECREASE = 0.7
CUT_EVERY_MS = 1_000
CIRCUIT_FIRST_MS, CIRCUIT_MOST_MS = 500, 30_000


class Concurrency:
    """How many pushes may be under way: more while that goes well, fewer when it does not.

    At first each answer lets one more in, which doubles the limit in each round; after the first slow answer
    or failure a round lets in one more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._limit = float(min(FIRST_LIMIT, most))
        self._best_ms: float | None = None
        self._cut_at_ms: float | None = None
        self._is_starting = True

    @property
    def limit(self) -> int:
        """How many at once."""
        return max(1, int(self._limit))

    def answered(self, latency_ms: float, running: int) -> None:
        """Take in that an answer came after so long, with so many under way."""
        if self._best_ms is None or latency_ms < self._best_ms:
            self._best_ms = latency_ms
        elif self.limit == 1:  # One alone: that is how long it takes now.
            self._best_ms += SMOOTHING * (latency_ms - self._best_ms)
        if latency_ms > TOLERANCE * self._best_ms + 5:
            self._is_starting = False
            self._limit = max(1.0, self._limit - 1 / self._limit)
        elif running * 2 >= self._limit:  # A limit that nobody reaches says nothing.
            self._limit = min(float(self.most), self._limit + (1 if self._is_starting else 1 / self._limit))

    def failed(self, now_ms: float) -> None:
        """Take in that a push timed out, or the service said that it is too much; once for each second."""
        self._is_starting = False
        if self._cut_at_ms is None or now_ms - self._cut_at_ms >= CUT_EVERY_MS:
            self._cut_at_ms = now_ms
            self._limit = max(1.0, self._limit * DECREASE)


class Rate:
    """How many pushes may begin in a second, with a burst of a tenth of that; 0 is without a limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second / 10)
        self._tokens = self._burst
        self._at_ms: float | None = None

    def wait_ms(self, now_ms: float) -> float:
        """Return how long until the next may begin; 0 if it may now."""
        if not self._per_second:
            return 0.0
        if self._at_ms is not None:
            self._tokens = min(self._burst, self._tokens + (now_ms - self._at_ms) * self._per_second / 1_000)
        self._at_ms = now_ms
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) * 1_000 / self._per_second

    def take(self) -> None:
        """Count one that begins."""
        if self._per_second:
            self._tokens -= 1


class Circuit(Enum):
    """Whether a destination is pushed to."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"  # One push finds out.


class Breaker:
    """Opens after so many failures in a row, lets one push through after a while, closes with a success.

    A record that fails once more may be what is wrong: what only such records say keeps no circuit open.
    """

    def __init__(self, failures_max: int, first_ms: int, most_ms: int) -> None:
        self.state = Circuit.CLOSED
        self._failures_max = failures_max
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._wait_ms = first_ms
        self._failures = 0
        self._opened_at_ms = 0.0

    def wait_ms(self, now_ms: float, running: int) -> float:
        """Return how long until a push may begin; 0 if it may now. A look at the time may half open it."""
        if self.state is Circuit.CLOSED:
            return 0.0
        left_ms = self._opened_at_ms + self._wait_ms - now_ms
        if self.state is Circuit.OPEN and left_ms > 0:
            return left_ms
        self.state = Circuit.HALF_OPEN
        return 0.0 if running == 0 else float(self._first_ms)

    def succeeded(self) -> None:
        """Take in that the service works."""
        self.state, self._failures, self._wait_ms = Circuit.CLOSED, 0, self._first_ms

    def failed(self, now_ms: float) -> None:
        """Take in that it does not."""
        self._failures += 1
        if self.state is Circuit.HALF_OPEN:
            self._wait_ms = min(self._most_ms, self._wait_ms * 2)
            self._open(now_ms)
        elif self.state is Circuit.CLOSED and self._failures >= self._failures_max:
            self._open(now_ms)

    def doubted(self) -> None:
        """Take in that the service was there, and failed a record that had failed before.

        An open circuit closes; the next failure of another record opens it again, for longer.
        """
        if self.state is Circuit.HALF_OPEN:
            self._wait_ms = min(self._most_ms, self._wait_ms * 2)
            self.state, self._failures = Circuit.CLOSED, self._failures_max - 1

    def _open(self, now_ms: float) -> None:
        self.state, self._opened_at_ms = Circuit.OPEN, now_ms


class Limits:
    """What one service is given: how much at once, how often, and whether at all."""

    def __init__(
        self,
        concurrency_max: int,
        rate_max: float,
        failures_max: int,
        circuit_first_ms: int,
        circuit_most_ms: int,
    ) -> None:
        self.concurrency = Concurrency(concurrency_max)
        self.rate = Rate(rate_max)
        self.breaker = Breaker(failures_max, circuit_first_ms, circuit_most_ms)
        self.running = 0
        self.pushed = 0
        self.latency_ms: float | None = None  # Smoothed: of answers, and of what was waited for in vain.

    @property
    def is_full(self) -> bool:
        """Whether as many are under way as may be."""
        return self.running >= self.concurrency.limit

    def wait_ms(self, now_ms: float) -> float:
        """Return how long until a push may begin; 0 if it may now."""
        return max(self.rate.wait_ms(now_ms), self.breaker.wait_ms(now_ms, self.running))

    def took(self, latency_ms: float) -> None:
        """Take in how long a push has lasted."""
        before_ms = latency_ms if self.latency_ms is None else self.latency_ms
        self.latency_ms = before_ms + LATENCY_SMOOTHING * (latency_ms - before_ms)

    def begin(self) -> None:
        """Count a push that begins."""
        self.rate.take()
        self.running += 1
        self.pushed += 1


def limits_of(service: Destination) -> Limits:
    """Return what a service is given at once."""
    return Limits(
        service.concurrency_max, service.rate_max, service.failures_max, CIRCUIT_FIRST_MS, CIRCUIT_MOST_MS
    )
