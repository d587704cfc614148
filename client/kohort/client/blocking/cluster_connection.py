"""One connection to a cluster, and one thread, that several blocking clients share."""

from typing import Never, Unpack

from kohort.client import cluster_connection
from kohort.client.blocking.client import BlockingClient
from kohort.client.config import ClientOptions


class ClusterConnection(BlockingClient[cluster_connection.ClusterConnection]):
    """Metadata of a cluster, one connection to each broker, and one thread, that several clients share.

    with ClusterConnection(bootstrap_servers="localhost:9092") as cluster:
        with Producer(cluster=cluster) as producer, Admin(cluster=cluster) as admin:
            ...

    The address and all other settings of the connection are given here, and not to the clients. A consumer's
    fetches and its membership wait long at a broker: they have separate connections and delay no client.
    Close the clients first: others are closed with the connection, and lose unsent records.
    """

    def __init__(self, *unnamed: Never, **options: Unpack[ClientOptions]) -> None:
        super().__init__(cluster_connection.ClusterConnection(*unnamed, **options), "kohort-cluster")

    def close(self) -> None:
        """Close the connections, and the clients that still use them."""
        self._close()


def connection_of(cluster: ClusterConnection | None) -> cluster_connection.ClusterConnection | None:
    """Return the asynchronous connection of a shared one, None if there is none."""
    return None if cluster is None else cluster._client
