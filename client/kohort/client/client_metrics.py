"""What every client counts of its requests and connections.

Source: org.apache.kafka.common.network.Selector, NetworkClient.
"""

from kohort.client.cluster import Cluster
from kohort.client.metrics import Metrics


class RequestMetrics:
    """Counts every answer of a cluster's connections."""

    def __init__(self, registry: Metrics, group: str, cluster: Cluster) -> None:
        self._response = registry.meter(group, "response")
        self._incoming = registry.meter(group, "incoming-byte")
        self._latency = registry.gauge(group, "request-latency")
        registry.value(group, "connection-count", lambda: cluster.connection_count)
        cluster.observer = self.answered

    def answered(self, api_key: int, latency_ms: int, size_bytes: int) -> None:
        """A broker has answered a request."""
        self._response.record()
        self._incoming.record(size_bytes)
        self._latency.record(latency_ms)
