"""The observer's metrics: kminion's names where they mean the same, and the observer's own."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kohort.observe.lags import PlaceLag
from kohort.observe.observer import Observer
from kohort.observe.watched import Watched

CONTENT_TYPE = CONTENT_TYPE_LATEST
PARTITIONS_MAX = 20_000
"""More have no series of their own; the group's sum has them."""


def metrics_page(observers: Sequence[Observer], now_ms: int) -> bytes:
    """Return the metrics in Prometheus' text format; of several clusters each series has the name."""
    registry = CollectorRegistry()
    registry.register(_Told(observers, now_ms))
    page: bytes = generate_latest(registry)
    return page


class _Told(Collector):
    def __init__(self, observers: Sequence[Observer], now_ms: int) -> None:
        self._observers = observers
        self._now_ms = now_ms

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what there is depends on the cluster."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield groups, their lag, and how the observer is."""
        families = _Families([_CLUSTER] if any(each.name for each in self._observers) else [])
        for observer in self._observers:
            labels = [observer.name] if families.labels else []
            watched = observer.watched
            with watched.lock:
                lags = _add_groups(families, labels, watched, self._now_ms)
            _add_lags(families, labels, lags)
            _add_own(families, labels, watched)
        yield from families


_CLUSTER = "cluster"


class _Families:
    """All metrics, to which each cluster adds its series."""

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels
        group, topic = [*labels, "group_id"], [*labels, "group_id", "topic_name"]
        partition = [*topic, "partition_id"]
        self.members = GaugeMetricFamily("kminion_kafka_consumer_group_members", "Members.", labels=group)
        self.generation = CounterMetricFamily(
            "kohort_observe_group_generation", "The generation or group epoch.", labels=group
        )
        self.lag_of_partition = GaugeMetricFamily(
            "kminion_kafka_consumer_group_topic_partition_lag", "Records behind.", labels=partition
        )
        self.seconds = GaugeMetricFamily(
            "kohort_observe_group_topic_partition_lag_seconds", "Time behind.", labels=partition
        )
        self.lag_of_topic = GaugeMetricFamily(
            "kminion_kafka_consumer_group_topic_lag", "Records behind.", labels=topic
        )
        self.records = CounterMetricFamily(
            "kohort_observe_records", "Records of __consumer_offsets that were read.", labels=labels
        )
        self.undecoded = CounterMetricFamily(
            "kohort_observe_records_undecoded", "Records of an unknown format.", labels=labels
        )
        self.behind = GaugeMetricFamily(
            "kohort_observe_records_behind", "Records of __consumer_offsets not read yet.", labels=labels
        )
        self.calls = CounterMetricFamily("kohort_observe_calls", "Questions to the cluster.", labels=labels)
        self.caught_up = GaugeMetricFamily(
            "kohort_observe_caught_up", "1 once all records are read.", labels=labels
        )
        self.reads_records = GaugeMetricFamily(
            "kohort_observe_reads_records", "0 where __consumer_offsets may not be read.", labels=labels
        )
        self.problems = GaugeMetricFamily(
            "kohort_observe_problems", "What does not work: reading, asking.", labels=labels
        )
        self.looked = GaugeMetricFamily(
            "kohort_observe_last_look_timestamp_seconds", "When the cluster last answered.", labels=labels
        )

    def __iter__(self) -> Iterator[Metric]:
        """Yield each metric."""
        yield from (each for each in vars(self).values() if isinstance(each, Metric))


def _add_groups(
    families: _Families, labels: list[str], watched: Watched, now_ms: int
) -> dict[str, list[PlaceLag]]:
    lags: dict[str, list[PlaceLag]] = {}
    for group_id, group in watched.records.groups.items():
        families.members.add_metric([*labels, group_id], len(group.snapshot.members))
        families.generation.add_metric([*labels, group_id], max(group.snapshot.generation_id, 0))
        lags[group_id] = [watched.lags.lag_of(group_id, each, now_ms) for each in group.places.values()]
    return lags


def _add_own(families: _Families, labels: list[str], watched: Watched) -> None:
    status = watched.status
    families.records.add_metric(labels, watched.records.records)
    families.undecoded.add_metric(labels, watched.records.undecoded)
    families.behind.add_metric(labels, status.behind)
    families.calls.add_metric(labels, status.calls)
    families.caught_up.add_metric(labels, int(status.is_caught_up))
    families.reads_records.add_metric(labels, int(status.reads_records))
    families.problems.add_metric(labels, len(status.problems))
    families.looked.add_metric(labels, status.looked_ms / 1_000)


def _add_lags(families: _Families, labels: list[str], lags: dict[str, list[PlaceLag]]) -> None:
    series = 0
    for group_id, places in lags.items():
        topics: dict[str, int] = {}
        for each in places:
            if each.lag is None:
                continue
            topics[each.topic] = topics.get(each.topic, 0) + each.lag
            series += 1
            if series <= PARTITIONS_MAX:
                of_partition = [*labels, group_id, each.topic, str(each.partition)]
                families.lag_of_partition.add_metric(of_partition, each.lag)
                families.seconds.add_metric(of_partition, each.lag_seconds or 0)
        for topic, lag in topics.items():
            families.lag_of_topic.add_metric([*labels, group_id, topic], lag)
