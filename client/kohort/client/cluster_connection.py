"""One connection to a cluster that several asynchronous clients share."""

from collections.abc import Mapping
from types import TracebackType
from typing import Never, Self, Unpack

from kohort.client.arguments import by_name_alone
from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster import Cluster
from kohort.client.config import ClientOptions, connection_config, describe_servers
from kohort.client.errors import ConfigurationError
from kohort.client.metrics import MetricName, Metrics
from kohort.client.start_stop import StartStop
from kohort.client.unclosed import OpenTasks

GUESTS_MS = 120_000  # What clients that nobody has closed either may take: their delivery_timeout_ms.
METRICS = "cluster-connection-metrics"


class ClusterConnection(StartStop):
    """What the clients of a program share where it is given to them: one look at the cluster's metadata, and
    one connection to each broker.

    async with ClusterConnection(bootstrap_servers="localhost:9092") as cluster:
        async with Producer(cluster=cluster) as producer, Admin(cluster=cluster) as admin:
            ...

    It has the address and everything else about the connection, which no client is told again. What waits
    long at a broker, a consumer's fetches and its membership, keeps connections of its own and delays nobody.
    """

    def __init__(self, *unnamed: Never, **options: Unpack[ClientOptions]) -> None:
        by_name_alone(unnamed, "ClusterConnection(bootstrap_servers=...)")
        config = connection_config(options)
        self.given: Mapping[str, object] = dict(options)
        self.shared = Cluster(config)
        self._metrics = Metrics(config.client_id)
        RequestMetrics(self._metrics, METRICS, self.shared)

    def __repr__(self) -> str:
        return f"<aio.ClusterConnection to {describe_servers(self.shared.config)}>"

    def __del__(self) -> None:
        if "_open" in self.__dict__:
            self._open.end_soon(self, self.shared.wait_for_guests, GUESTS_MS)

    async def __aenter__(self) -> Self:
        await self.shared.__aenter__()
        self._open = OpenTasks(self.shared)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shared.__aexit__(kind, error, trace)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what is counted of the requests over the connections that are shared."""
        return self._metrics.read()


def options_with(cluster: ClusterConnection | None, options: Mapping[str, object]) -> Mapping[str, object]:
    """Return a client's options, with those of the connection that it is given.

    Raises: ConfigurationError for what stands in the connection alone.
    """
    if cluster is None:
        return options
    for name in options:
        if name in OF_CONNECTION:
            raise ConfigurationError(f"{name} belongs to the cluster connection: give it there")
    return {**cluster.given, **options}


OF_CONNECTION = frozenset(
    (
        "bootstrap_servers",
        "reconnect_backoff_ms",
        "reconnect_backoff_max_ms",
        "connections_max_idle_ms",
        "metadata_recovery_strategy",
        "metadata_recovery_rebootstrap_trigger_ms",
        "socket_connection_setup_timeout_ms",
        "receive_buffer_bytes",
        "send_buffer_bytes",
    )
)
"""Settings of the connection alone; a client may have a name and times of its own."""
