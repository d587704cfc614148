"""The page /metrics: kminion's and Burrow's names where they mean the same, and the observer's own."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kohort.observe import families as of
from kohort.observe.families import FAMILIES
from kohort.observe.lags import PlaceLag
from kohort.observe.observer import Observer
from kohort.observe.watched import Watched
from kohort.observe.webhooks import Sender
from kohort.protocol.metric_family import Family
from kohort.protocol.verdict import Verdict, worst

CONTENT_TYPE = CONTENT_TYPE_LATEST
PARTITIONS_MAX = 20_000
"""More have no series of their own; the group's sum has them."""
CLUSTER = "cluster"
_BURROW = {Verdict.OK: 1, Verdict.WARN: 2}
_BURROW_ERROR = 3
_UNKNOWN = "unknown"


def metrics_page(observers: Sequence[Observer], now_ms: int, senders: Sequence[Sender] = ()) -> bytes:
    """Return the metrics in Prometheus' text format; of several clusters each series has the name."""
    registry = CollectorRegistry()
    registry.register(_Told(observers, now_ms, senders))
    page: bytes = generate_latest(registry)
    return page


class _Told(Collector):
    def __init__(self, observers: Sequence[Observer], now_ms: int, senders: Sequence[Sender]) -> None:
        self._observers = observers
        self._now_ms = now_ms
        self._senders = senders

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what there is depends on the cluster."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield groups, their lag, and how the observer is."""
        is_named = any(each.name for each in self._observers)
        page = _Page([CLUSTER] if is_named else [])
        for observer in self._observers:
            page.labels = [observer.name] if is_named else []
            _add_cluster(page, observer.watched, self._now_ms)
        page.labels = []
        for sender in self._senders:
            labels = (sender.webhook.kind.value, sender.webhook.host)
            page.add(of.WEBHOOK_SENT, sender.sent, *labels)
            page.add(of.WEBHOOK_FAILED, sender.failed + sender.dropped, *labels)
        yield from page.metrics()


class _Page:
    """All metrics, to which each cluster adds its series; `labels` are what these begin with."""

    def __init__(self, names: list[str]) -> None:
        self.labels: list[str] = []
        self._metrics = {each: _metric(each, names) for each in FAMILIES}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add one series."""
        self._metrics[family].add_metric([*self.labels, *labels], value)

    def metrics(self) -> Iterator[Metric]:
        """Yield each metric that has a series."""
        yield from (each for each in self._metrics.values() if each.samples)


def _metric(family: Family, names: list[str]) -> GaugeMetricFamily | CounterMetricFamily:
    is_webhook = family in {of.WEBHOOK_SENT, of.WEBHOOK_FAILED}
    labels = [*(() if is_webhook else names), *family.labels]
    if family.kind == "counter":
        return CounterMetricFamily(family.name.removesuffix("_total"), family.documentation, labels=labels)
    return GaugeMetricFamily(family.name, family.documentation, labels=labels)


def _add_cluster(page: _Page, watched: Watched, now_ms: int) -> None:
    status = watched.status
    series = 0
    with watched.lock:
        groups = [*watched.records.groups.items()]
    for group_id, group in groups:
        with watched.lock:  # Each for a moment: who reads records waits for this.
            lags = [watched.lags.lag_of(group_id, each, now_ms) for each in group.places.values()]
        page.add(of.MEMBERS, len(group.snapshot.members), group_id)
        page.add(of.GENERATION, max(group.snapshot.generation_id, 0), group_id)
        series += len(lags)
        _add_group(page, group_id, lags, with_partitions=series <= PARTITIONS_MAX)
    page.add(of.GROUPS, len(groups))
    page.add(of.RECORDS, watched.records.records)
    page.add(of.UNDECODED, watched.records.undecoded)
    page.add(of.BEHIND, status.behind)
    page.add(of.CALLS, status.calls)
    page.add(of.FETCHES, status.fetches)
    page.add(of.CAUGHT_UP, int(status.is_caught_up))
    page.add(of.READS_RECORDS, int(status.reads_records))
    page.add(of.PROBLEMS, len(status.problems))
    page.add(of.LOOKED, status.looked_ms / 1_000)


def _add_group(page: _Page, group_id: str, lags: Sequence[PlaceLag], *, with_partitions: bool) -> None:
    topics: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for each in lags:
        verdicts[_UNKNOWN if each.verdict is None else each.verdict.value.lower()] += 1
        if each.lag is None:
            continue
        topics[each.topic] += each.lag
        if with_partitions:
            labels = group_id, each.topic, str(each.partition)
            page.add(of.LAG_OF_PARTITION, each.lag, *labels)
            page.add(of.BURROW_LAG, each.lag, *labels)
            page.add(of.OFFSET, each.offset, *labels)
            page.add(of.LAG_SECONDS, each.lag_seconds or 0, *labels)
    for topic, lag in topics.items():
        page.add(of.LAG_OF_TOPIC, lag, group_id, topic)
    for verdict, count in sorted(verdicts.items()):
        page.add(of.PARTITIONS, count, group_id, verdict)
    known = [each.verdict for each in lags if each.verdict is not None]
    if known:
        page.add(of.LAG_OF_GROUP, sum(each.lag or 0 for each in lags), group_id)
        page.add(of.STATUS, _BURROW.get(worst(*known), _BURROW_ERROR), group_id)
