"""A share consumer's metrics, under the names of Kafka's Java client.

Source: ShareFetchMetricsRegistry, KafkaShareConsumerMetrics.
"""

from kohort.client.client_metrics import PollingMetrics
from kohort.client.cluster import Cluster
from kohort.client.metrics import Metrics

SHARE_CONSUMER = "consumer-share-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
FETCH = "consumer-share-fetch-manager-metrics"

_HEARTBEAT, _FETCH = 76, 78


class ShareMetrics(PollingMetrics):
    """The sensors of one share consumer."""

    def __init__(self, registry: Metrics, cluster: Cluster) -> None:
        timed = {
            _FETCH: (registry.meter(FETCH, "fetch"), registry.gauge(FETCH, "fetch-latency")),
            _HEARTBEAT: (
                registry.meter(COORDINATOR, "heartbeat"),
                registry.gauge(COORDINATOR, "heartbeat-response-time"),
            ),
        }
        super().__init__(registry, SHARE_CONSUMER, cluster, timed)
        self._consumed = self._acknowledged = 0
        self._rebalance = registry.meter(COORDINATOR, "rebalance")
        registry.counted(FETCH, "records-consumed", lambda: self._consumed)
        registry.counted(FETCH, "acknowledgements-send", lambda: self._acknowledged)

    def joining(self) -> None:
        """The member asks to join."""

    def synced(self, error_code: int) -> None:
        """The member has another assignment, or an error instead."""
        if not error_code:
            self._rebalance.record()

    def consumed(self, count: int) -> None:
        """The user received this many records."""
        self._consumed += count

    def acknowledged(self, count: int) -> None:
        """The user, or implicit mode, has acknowledged this many records."""
        self._acknowledged += count
