"""How fast something goes, and how long to wait until it is as slow as it may be. Pure.

Source: Kafka's Rate, SampledStat, TokenBucket and QuotaUtils.
"""

from collections import deque


class SampledRate:
    """A rate per second over the last windows: the current one, and those before it.

    A rate that has just begun counts as if all windows but one had gone by, so that a first burst is no
    violation by itself.
    """

    __slots__ = ("_samples", "_windows", "last_ms", "told_ms", "told_until_ms", "window_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self.window_ms = window_ms
        self._samples: deque[tuple[int, float]] = deque()  # When a window began, and its sum.
        self.last_ms = 0
        """When something was recorded last."""
        self.told_ms = self.told_until_ms = 0
        """The last throttle time, and when it ends."""

    def record(self, value: float, now_ms: int) -> None:
        """Add so much use now."""
        self.last_ms = now_ms
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self.window_ms:
            began_ms, total = samples[-1]
            samples[-1] = began_ms, total + value
        else:
            samples.append((now_ms, value))
            if len(samples) > self._windows:
                samples.popleft()

    def value(self, now_ms: int) -> float:
        """Return the shown value: the rate."""
        return self.rate(now_ms)

    def rate(self, now_ms: int) -> float:
        """Return how much a second it was."""
        return self.total(now_ms) * 1_000 / self.span_ms(now_ms)

    def total(self, now_ms: int) -> float:
        """Return how much it was in all windows."""
        self._forget(now_ms)
        return sum(total for _, total in self._samples)

    def span_ms(self, now_ms: int) -> int:
        """Return over how long the rate is taken."""
        self._forget(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._windows - 1 - elapsed_ms // self.window_ms
        return elapsed_ms + max(missing, 0) * self.window_ms or self.window_ms

    def _forget(self, now_ms: int) -> None:
        samples, oldest_ms = self._samples, now_ms - self._windows * self.window_ms
        while samples and samples[0][0] <= oldest_ms:
            samples.popleft()

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long to wait until the rate is no more than `bound`."""
        rate = self.rate(now_ms)
        return round((rate - bound) / bound * self.span_ms(now_ms)) if rate > bound else 0


class TokenBucket:
    """A burst limit, refilled at a rate: a client that finds anything left takes all it needs."""

    __slots__ = ("_bound", "_burst_s", "_tokens", "last_ms", "told_ms", "told_until_ms")

    def __init__(self, burst_s: float, bound: float, now_ms: int) -> None:
        """Start full: with the amount of `burst_s` seconds."""
        self._burst_s = burst_s
        self._bound = bound
        self._tokens = burst_s * bound
        self.last_ms = now_ms
        """When it was filled last."""
        self.told_ms = self.told_until_ms = 0
        """The last throttle time, and when it ends."""

    def value(self, now_ms: int) -> float:
        """Return how much may be taken now; less than 0 where that was overdrawn."""
        self._refill(self._bound, now_ms)
        return self._tokens

    def _refill(self, bound: float, now_ms: int) -> None:
        more = bound * (now_ms - self.last_ms) / 1_000
        self._tokens = min(self._tokens + more, self._burst_s * bound)
        self.last_ms = now_ms

    def take(self, value: float, bound: float, now_ms: int, *, strictly: bool = True) -> bool:
        """Take so much, unless it is overdrawn; return whether it was taken."""
        self._bound = bound
        self._refill(bound, now_ms)
        if strictly and self._tokens < 0:
            return False
        self._tokens -= value
        return True

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long it takes until the overdrawn amount is refilled."""
        self._refill(bound, now_ms)
        return round(-self._tokens / bound * 1_000) if self._tokens < 0 else 0
