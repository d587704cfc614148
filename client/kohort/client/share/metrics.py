"""What a share consumer counts, under the names of Kafka's Java client.

Source: ShareFetchMetricsRegistry, KafkaShareConsumerMetrics.
"""

from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster import Cluster
from kohort.client.metrics import Metrics

SHARE_CONSUMER = "consumer-share-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
FETCH = "consumer-share-fetch-manager-metrics"

_HEARTBEAT, _FETCH = 76, 78


class ShareMetrics(RequestMetrics):
    """The sensors of one share consumer."""

    def __init__(self, registry: Metrics, cluster: Cluster) -> None:
        super().__init__(registry, SHARE_CONSUMER, cluster)
        self._consumed = self._said = 0
        self._poll_ms = -1
        self._timed = {
            _FETCH: (registry.meter(FETCH, "fetch"), registry.gauge(FETCH, "fetch-latency")),
            _HEARTBEAT: (
                registry.meter(COORDINATOR, "heartbeat"),
                registry.gauge(COORDINATOR, "heartbeat-response-time"),
            ),
        }
        self._rebalance = registry.meter(COORDINATOR, "rebalance")
        self._time_between_poll = registry.gauge(SHARE_CONSUMER, "time-between-poll")
        registry.counted(FETCH, "records-consumed", lambda: self._consumed)
        registry.counted(FETCH, "acknowledgements-send", lambda: self._said)

    def answered(self, api_key: int, latency_ms: int, size_bytes: int) -> None:
        """A broker has answered a request."""
        super().answered(api_key, latency_ms, size_bytes)
        timed = self._timed.get(api_key)
        if timed is not None:
            timed[0].record()
            timed[1].record(latency_ms)

    def joining(self) -> None:
        """The member asks to join."""

    def synced(self, error_code: int) -> None:
        """The member has another assignment, or an error instead."""
        if not error_code:
            self._rebalance.record()

    def polled(self, now_ms: int) -> None:
        """The user polls."""
        if self._poll_ms >= 0:
            self._time_between_poll.record(now_ms - self._poll_ms)
        self._poll_ms = now_ms

    def consumed(self, count: int) -> None:
        """The user got so many records."""
        self._consumed += count

    def said(self, count: int) -> None:
        """The user, or its mode, has acknowledged so many records."""
        self._said += count
