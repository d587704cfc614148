"""The observer's metrics: kminion's names where they mean the same, and the observer's own."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kohort.observe.lags import PlaceLag
from kohort.observe.observer import Observer

CONTENT_TYPE = CONTENT_TYPE_LATEST
PARTITIONS_MAX = 20_000
"""More have no series of their own; the group's sum has them."""


def metrics_page(observer: Observer, now_ms: int) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Told(observer, now_ms))
    page: bytes = generate_latest(registry)
    return page


class _Told(Collector):
    def __init__(self, observer: Observer, now_ms: int) -> None:
        self._observer = observer
        self._now_ms = now_ms

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what there is depends on the cluster."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield groups, their lag, and how the observer is."""
        with self._observer.watched.lock:
            yield from self._groups()
            lags = {
                group_id: [
                    self._observer.watched.lags.lag_of(group_id, each, self._now_ms)
                    for each in group.places.values()
                ]
                for group_id, group in self._observer.watched.records.groups.items()
            }
        yield from _lag(lags)
        yield from self._own()

    def _groups(self) -> Iterator[Metric]:
        members = GaugeMetricFamily("kminion_kafka_consumer_group_members", "Members.", labels=["group_id"])
        generations = CounterMetricFamily(
            "kohort_observe_group_generation", "The generation or group epoch.", labels=["group_id"]
        )
        for group_id, group in self._observer.watched.records.groups.items():
            members.add_metric([group_id], len(group.snapshot.members))
            generations.add_metric([group_id], max(group.snapshot.generation_id, 0))
        yield members
        yield generations

    def _own(self) -> Iterator[Metric]:
        status = self._observer.watched.status
        records = CounterMetricFamily(
            "kohort_observe_records", "Records of __consumer_offsets that were read."
        )
        records.add_metric([], self._observer.watched.records.records)
        yield records
        undecoded = CounterMetricFamily("kohort_observe_records_undecoded", "Records of an unknown format.")
        undecoded.add_metric([], self._observer.watched.records.undecoded)
        yield undecoded
        calls = CounterMetricFamily("kohort_observe_calls", "Questions to the cluster.")
        calls.add_metric([], status.calls)
        yield calls
        ready = GaugeMetricFamily("kohort_observe_caught_up", "1 once all records are read.")
        ready.add_metric([], int(status.is_caught_up))
        yield ready
        reads = GaugeMetricFamily(
            "kohort_observe_reads_records", "0 where __consumer_offsets may not be read."
        )
        reads.add_metric([], int(status.reads_records))
        yield reads


def _lag(lags: dict[str, list[PlaceLag]]) -> Iterator[Metric]:
    partition_labels = ["group_id", "topic_name", "partition_id"]
    of_partition = GaugeMetricFamily(
        "kminion_kafka_consumer_group_topic_partition_lag", "Records behind.", labels=partition_labels
    )
    seconds = GaugeMetricFamily(
        "kohort_observe_group_topic_partition_lag_seconds", "Time behind.", labels=partition_labels
    )
    of_topic = GaugeMetricFamily(
        "kminion_kafka_consumer_group_topic_lag", "Records behind.", labels=["group_id", "topic_name"]
    )
    series = 0
    for group_id, places in lags.items():
        topics: dict[str, int] = {}
        for each in places:
            if each.lag is None:
                continue
            topics[each.topic] = topics.get(each.topic, 0) + each.lag
            series += 1
            if series <= PARTITIONS_MAX:
                labels = [group_id, each.topic, str(each.partition)]
                of_partition.add_metric(labels, each.lag)
                seconds.add_metric(labels, each.lag_seconds or 0)
        for topic, lag in topics.items():
            of_topic.add_metric([group_id, topic], lag)
    yield of_partition
    yield seconds
    yield of_topic
