"""What every client counts of its requests and connections.

Source: org.apache.kafka.common.network.Selector, NetworkClient.
"""

from kohort.client.cluster import Cluster
from kohort.client.metrics import Gauge, Meter, Metrics


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


class PollingMetrics(RequestMetrics):
    """What both consumers count: the polls, and the answers to the requests in `timed`, by API key."""

    def __init__(
        self, registry: Metrics, group: str, cluster: Cluster, timed: dict[int, tuple[Meter, Gauge]]
    ) -> None:
        super().__init__(registry, group, cluster)
        self._timed = timed
        self._poll_ms = -1
        self._time_between_poll = registry.gauge(group, "time-between-poll")

    def answered(self, api_key: int, latency_ms: int, size_bytes: int) -> None:
        """A broker has answered a request."""
        super().answered(api_key, latency_ms, size_bytes)
        timed = self._timed.get(api_key)
        if timed is not None:
            timed[0].record()
            timed[1].record(latency_ms)

    def polled(self, now_ms: int) -> None:
        """The user polls."""
        if self._poll_ms >= 0:
            self._time_between_poll.record(now_ms - self._poll_ms)
        self._poll_ms = now_ms
