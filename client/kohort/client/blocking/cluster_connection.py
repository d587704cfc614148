"""One connection to a cluster, and one thread, that several blocking clients share."""

from collections.abc import Mapping
from types import TracebackType
from typing import Never, Self, Unpack

from kohort.client import cluster_connection
from kohort.client.cluster_connection import GUESTS_MS
from kohort.client.config import ClientOptions
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.metrics import MetricName
from kohort.client.unclosed import end_soon, no_words


class ClusterConnection:
    """What the clients of a program share where it is given to them: one look at the cluster's metadata, one
    connection to each broker, and the thread that all of it runs in.

    with ClusterConnection(bootstrap_servers="localhost:9092") as cluster:
        with Producer(cluster=cluster) as producer, Admin(cluster=cluster) as admin:
            ...

    It has the address and everything else about the connection, which no client is told again. What waits
    long at a broker, a consumer's fetches and its membership, keeps connections of its own and delays nobody.
    Close the clients first: those that are left are closed with it, and what they have not sent is given up.
    """

    def __init__(self, *unnamed: Never, **options: Unpack[ClientOptions]) -> None:
        self.connection = cluster_connection.ClusterConnection(*unnamed, **options)
        self.loop = LoopThread(self.connection, "kohort-cluster")
        self._not_at_exit = close_at_exit(self.close)

    def __repr__(self) -> str:
        state = "" if self.loop.is_running else "closed "
        return repr(self.connection).replace("<aio.", f"<{state}")

    def __del__(self) -> None:
        if "_not_at_exit" in self.__dict__ and self.loop.is_running:
            self._not_at_exit()
            end_soon(self, self.loop, no_words, GUESTS_MS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and the clients that still use them."""
        self._not_at_exit()
        self.loop.stop()

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what is counted of the requests over the connections that are shared."""
        return self.connection.metrics()
