"""One connection to a cluster that several asynchronous clients share."""

from collections.abc import Mapping
from typing import Never, Unpack

from kohort.client.arguments import by_name_alone
from kohort.client.async_client import AsyncClient
from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster import Cluster
from kohort.client.config import ClientOptions, connection_config, describe_servers
from kohort.client.errors import ConfigurationError
from kohort.client.session import Session

METRICS = "cluster-connection-metrics"


class SharedSession(Session):
    """The session of a connection that other clients share."""

    finish_timeout_ms = 120_000  # What unclosed clients that share it may take: their delivery_timeout_ms.

    async def finish(self) -> None:
        """Wait for the clients that are not closed either."""
        await self.cluster.wait_for_guests()


class ClusterConnection(AsyncClient[SharedSession]):
    """Metadata of a cluster, and one connection to each broker, that several clients of a program share.

    async with ClusterConnection(bootstrap_servers="localhost:9092") as cluster:
        async with Producer(cluster=cluster) as producer, Admin(cluster=cluster) as admin:
            ...

    The address and all other settings of the connection are given here, and not to the clients. A consumer's
    fetches and its membership wait long at a broker: they have separate connections and delay no client.
    """

    def __init__(self, *unnamed: Never, **options: Unpack[ClientOptions]) -> None:
        by_name_alone(unnamed, "ClusterConnection(bootstrap_servers=...)")
        super().__init__(SharedSession(connection_config(options)))
        self.given: Mapping[str, object] = dict(options)
        RequestMetrics(self._session.metrics, METRICS, self.shared)

    def __repr__(self) -> str:
        return f"<aio.ClusterConnection to {describe_servers(self.shared.config)}>"

    @property
    def shared(self) -> Cluster:
        """The cluster whose metadata and connections are shared."""
        return self._session.cluster


def hub_of(connection: ClusterConnection | None) -> Cluster | None:
    """Return the cluster that a client shares, None if it has its own."""
    return None if connection is None else connection.shared


def options_with(
    cluster: ClusterConnection | None, options: Mapping[str, object], **functions: object
) -> Mapping[str, object]:
    """Return a client's options, with its serializers and those of its connection.

    Raises: ConfigurationError for a setting that belongs to the connection.
    """
    if cluster is None:
        return {**options, **functions}
    for name in options:
        if name in OF_CONNECTION:
            raise ConfigurationError(f"{name} belongs to the cluster connection: give it there")
    return {**cluster.given, **options, **functions}


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
"""Settings of the connection only; a client may have its own name and timeouts."""
