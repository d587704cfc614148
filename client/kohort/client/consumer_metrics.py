"""A consumer's metrics, under the names of Kafka's Java client: never updated for a single record.

Source: FetchMetricsRegistry, ConsumerCoordinator.ConsumerCoordinatorMetrics,
AbstractCoordinator.GroupCoordinatorMetrics, KafkaConsumerMetrics.
"""

from collections.abc import Callable, Iterator

from kohort.client.client_metrics import PollingMetrics
from kohort.client.cluster import Cluster
from kohort.client.metrics import MetricName, Metrics
from kohort.client.positions import Positions
from kohort.client.retry import monotonic_ms
from kohort.client.values import TopicPartition

CONSUMER = "consumer-metrics"
COORDINATOR = "consumer-coordinator-metrics"
FETCH = "consumer-fetch-manager-metrics"

_FETCH, _COMMIT, _JOIN, _HEARTBEAT, _SYNC, _CONSUMER_HEARTBEAT = 1, 8, 11, 12, 14, 68


class ConsumerMetrics(PollingMetrics):
    """The sensors of one consumer; `handed_out` returns the number of returned records."""

    def __init__(
        self,
        registry: Metrics,
        cluster: Cluster,
        positions: Positions,
        lag_of: Callable[[TopicPartition], int | None],
        handed_out: Callable[[], int],
    ) -> None:
        timed = {
            _FETCH: (registry.meter(FETCH, "fetch"), registry.gauge(FETCH, "fetch-latency")),
            _COMMIT: (registry.meter(COORDINATOR, "commit"), registry.gauge(COORDINATOR, "commit-latency")),
            _JOIN: (registry.meter(COORDINATOR, "join"), registry.gauge(COORDINATOR, "join-time")),
            _SYNC: (registry.meter(COORDINATOR, "sync"), registry.gauge(COORDINATOR, "sync-time")),
            _HEARTBEAT: (
                registry.meter(COORDINATOR, "heartbeat"),
                registry.gauge(COORDINATOR, "heartbeat-response-time"),
            ),
        }
        timed[_CONSUMER_HEARTBEAT] = timed[_HEARTBEAT]
        super().__init__(registry, CONSUMER, cluster, timed)
        self._handed_out = handed_out
        self._registry = registry
        self._positions = positions
        self._lag_of = lag_of
        self._heartbeat_ms = self._rebalance_ms = self._joining_since_ms = -1
        self._sized = {_FETCH: (registry.gauge(FETCH, "fetch-size"), registry.meter(FETCH, "bytes-consumed"))}
        self._rebalance = registry.meter(COORDINATOR, "rebalance")
        self._failed_rebalance = registry.meter(COORDINATOR, "failed-rebalance")
        self._rebalance_latency = registry.gauge(COORDINATOR, "rebalance-latency")
        self._add_values(registry)

    def _add_values(self, registry: Metrics) -> None:
        registry.counted(FETCH, "records-consumed", self._handed_out)
        registry.value(FETCH, "records-lag-max", lambda: max(self._lags().values(), default=float("nan")))
        registry.value(COORDINATOR, "assigned-partitions", lambda: len(self._positions.partitions()))
        registry.value(COORDINATOR, "last-heartbeat-seconds-ago", lambda: _seconds_since(self._heartbeat_ms))
        registry.value(COORDINATOR, "last-rebalance-seconds-ago", lambda: _seconds_since(self._rebalance_ms))
        registry.value(CONSUMER, "last-poll-seconds-ago", lambda: _seconds_since(self._poll_ms))
        registry.also(self._partition_lags)

    def answered(self, api_key: int, latency_ms: int, size_bytes: int) -> None:
        """A broker has answered a request."""
        super().answered(api_key, latency_ms, size_bytes)
        sized = self._sized.get(api_key)
        if sized is not None:
            sized[0].record(size_bytes)
            sized[1].record(size_bytes)
        if api_key in (_HEARTBEAT, _CONSUMER_HEARTBEAT):
            self._heartbeat_ms = monotonic_ms()

    def joining(self) -> None:
        """Called when the member joins: a rebalance starts, unless one is running."""
        if self._joining_since_ms < 0:
            self._joining_since_ms = monotonic_ms()

    def synced(self, error_code: int) -> None:
        """The member has its share of a rebalance, or an error instead."""
        if error_code:
            self._failed_rebalance.record()
            return
        self._rebalance_ms = monotonic_ms()
        self._rebalance.record()
        if self._joining_since_ms >= 0:
            self._rebalance_latency.record(self._rebalance_ms - self._joining_since_ms)
            self._joining_since_ms = -1

    def _lags(self) -> dict[TopicPartition, int]:
        lags = {each: self._lag_of(each) for each in self._positions.partitions()}
        return {each: lag for each, lag in lags.items() if lag is not None}

    def _partition_lags(self) -> Iterator[tuple[MetricName, float]]:
        for partition, lag in self._lags().items():
            tags = (("topic", partition.topic), ("partition", str(partition.partition)))
            yield MetricName(FETCH, "records-lag", (*self._registry.client_tags, *tags)), float(lag)


def _seconds_since(at_ms: int) -> float:
    """Return how long ago that was, -1 if it never was, as Kafka has it."""
    return -1.0 if at_ms < 0 else (monotonic_ms() - at_ms) // 1_000
