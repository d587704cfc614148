"""Durations in buckets: plain numbers, added to by the loop's thread, read when metrics are asked for."""

from bisect import bisect_left


class Distribution:
    """How often a duration fell into which bucket, and the sum of all."""

    __slots__ = ("bounds", "counts", "sum_seconds")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # The last one counts values beyond every bound.
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_seconds += seconds

    @property
    def count(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (bound, how many were no longer) for each bound and for `+Inf`, as Prometheus wants it."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        return buckets
