"""A client's metrics, under the names of Kafka's Java client.

A sensor is updated for batches, requests and rounds, never for single records. Rates, averages and maxima
are over two windows of 30 seconds, as Kafka's are. Source: org.apache.kafka.common.metrics.stats.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kohort.client.retry import monotonic_ms

WINDOW_MS = 30_000


class MetricName(NamedTuple):
    """The name of a metric: such as consumer-fetch-manager-metrics, records-lag-max."""

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = "".join(f",{name}={value}" for name, value in self.tags)
        return f"{self.group}:{self.name}{tags}"


class _Window:
    """Sum, count and maximum of the current 30 seconds and of the previous ones."""

    __slots__ = ("before", "began_ms", "count", "maximum", "total")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.before: tuple[float, int, float] = (0.0, 0, float("-inf"))
        self.total, self.count, self.maximum = 0.0, 0, float("-inf")

    def roll(self, now_ms: int) -> None:
        """Start a new window when the current one is over."""
        passed = (now_ms - self.began_ms) // WINDOW_MS
        if passed:
            self.before = (self.total, self.count, self.maximum) if passed == 1 else (0.0, 0, float("-inf"))
            self.total, self.count, self.maximum = 0.0, 0, float("-inf")
            self.began_ms += passed * WINDOW_MS


class Meter:
    """Counts: `NAME-total` and `NAME-rate` a second."""

    __slots__ = ("_made_ms", "_window", "total")

    def __init__(self) -> None:
        self._made_ms = monotonic_ms()
        self._window = _Window(self._made_ms)
        self.total = 0.0

    def record(self, amount: float = 1) -> None:
        """Add to the count."""
        self.total += amount
        self._window.roll(monotonic_ms())
        self._window.total += amount

    @property
    def rate(self) -> float:
        """How much a second, over the last 30 to 60 seconds."""
        now_ms = monotonic_ms()
        window = self._window
        window.roll(now_ms)
        covered_ms = min(now_ms - self._made_ms, now_ms - window.began_ms + WINDOW_MS)
        return (window.total + window.before[0]) * 1_000 / max(covered_ms, 1_000)


class Gauge:
    """Observes values: `NAME-avg` and `NAME-max` of the last 30 to 60 seconds, NaN without values."""

    __slots__ = ("_window",)

    def __init__(self) -> None:
        self._window = _Window(monotonic_ms())

    def record(self, value: float, count: int = 1) -> None:
        """Observe a value, or the sum of several whose mean counts as the largest."""
        window = self._window
        window.roll(monotonic_ms())
        window.total += value
        window.count += count
        window.maximum = max(window.maximum, value / count)

    @property
    def average(self) -> float:
        """The mean."""
        self._window.roll(monotonic_ms())
        total, count, _ = self._window.before
        seen = self._window.count + count
        return (self._window.total + total) / seen if seen else float("nan")

    @property
    def maximum(self) -> float:
        """The largest."""
        self._window.roll(monotonic_ms())
        largest = max(self._window.maximum, self._window.before[2])
        return largest if largest != float("-inf") else float("nan")


class _Counted:
    """The rate of an external counter, read together with the metrics."""

    __slots__ = ("_before", "_read", "_since")

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._before = self._since = (monotonic_ms(), 0.0)

    def rate(self) -> float:
        now_ms, total = monotonic_ms(), self._read()
        if now_ms - self._since[0] >= WINDOW_MS:
            self._before, self._since = self._since, (now_ms, total)
        began_ms, began = self._before
        return (total - began) * 1_000 / max(now_ms - began_ms, 1_000)


class Metrics:
    """All metrics of one client; `read` gives their present values."""

    def __init__(self, client_id: str) -> None:
        self._tags = (("client-id", client_id),)
        self._readers: dict[MetricName, Callable[[], float]] = {}
        self._sources: list[Callable[[], Iterable[tuple[MetricName, float]]]] = []

    @property
    def client_tags(self) -> tuple[tuple[str, str], ...]:
        """The tags that every metric of this client carries."""
        return self._tags

    def also(self, source: Callable[[], Iterable[tuple[MetricName, float]]]) -> None:
        """Also show the metrics that `source` yields, for objects that come and go."""
        self._sources.append(source)

    def counted(self, group: str, name: str, read: Callable[[], float]) -> None:
        """Show a total that is counted elsewhere as `NAME-total` and `NAME-rate`."""
        self.value(group, f"{name}-total", read)
        self.value(group, f"{name}-rate", _Counted(read).rate)

    def value(self, group: str, name: str, read: Callable[[], float], **tags: str) -> None:
        """Show the result of `read` as a metric."""
        self._readers[self._name(group, name, tags)] = read

    def meter(self, group: str, name: str, **tags: str) -> Meter:
        """Return what counts for `NAME-total` and `NAME-rate`."""
        meter = Meter()
        self._readers[self._name(group, f"{name}-total", tags)] = lambda: meter.total
        self._readers[self._name(group, f"{name}-rate", tags)] = lambda: meter.rate
        return meter

    def gauge(self, group: str, name: str, **tags: str) -> Gauge:
        """Return what observes for `NAME-avg` and `NAME-max`."""
        gauge = Gauge()
        self._readers[self._name(group, f"{name}-avg", tags)] = lambda: gauge.average
        self._readers[self._name(group, f"{name}-max", tags)] = lambda: gauge.maximum
        return gauge

    def read(self) -> Mapping[MetricName, float]:
        """Return every metric with its present value."""
        found = {name: read() for name, read in self._readers.items()}
        for source in self._sources:
            found.update(source())
        return found

    def _name(self, group: str, name: str, tags: Mapping[str, str]) -> MetricName:
        own = ((each.replace("_", "-"), value) for each, value in tags.items())
        return MetricName(group, name, (*self._tags, *own))
