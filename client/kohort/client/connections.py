"""A client's connections to the brokers of one cluster, by the address and the channel."""

import random
from typing import TYPE_CHECKING, Self

import anyio

from kohort.client.cluster_tasks import ClusterTasks
from kohort.client.config import ClientConfig
from kohort.client.connecting import open_connection
from kohort.client.connection import Connection, Observer
from kohort.client.errors import ConfigurationError, KohortError, NetworkError, RequestTimeoutError
from kohort.client.metadata import Metadata
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.values import Node
from kohort.client.warnings import Warnings

if TYPE_CHECKING:
    import ssl

    from kohort.client.sasl import Authenticator

MAIN, FETCH, GROUP = "main", "fetch", "group"
"""Channels: a broker answers one connection's requests in order. Requests that wait there long (a fetch, a
join) have a connection of their own and delay no others."""

IDLE_CHECK_MS = 5_000
REBOOTSTRAP = "rebootstrap"


class Connections(ClusterTasks):
    """Connections that are opened when they are needed.

    With a `hub`, another cluster that is open for longer, it uses that one's metadata and main connections,
    and has only connections of other channels itself.
    """

    def __init__(self, config: ClientConfig, hub: Self | None) -> None:
        super().__init__(hub)
        self.config = config
        self.metadata: Metadata = Metadata() if hub is None else hub.metadata
        self.warnings: Warnings = Warnings() if hub is None else hub.warnings
        self.observer: Observer | None = None
        self._told_by = ""  # The broker that answered the metadata.
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._served: dict[Connection, None] = {}
        self._locks: dict[tuple[str, int, str], anyio.Lock] = {}
        self._backoffs: dict[tuple[str, int], tuple[Backoff, float]] = {}
        self._tls = _tls_context(config)
        self._sasl = _authenticator(config)

    def _opened(self) -> None:
        if self.config.connections_max_idle_ms >= 0:
            self.tasks.start_soon(self._close_idle)

    def _close_all(self) -> None:
        for each in tuple(self._served):
            each.close()

    async def connection(self, node_id: int, channel: str = MAIN) -> Connection:
        """Return a connection to a broker by its id. Raises: NetworkError, retriable."""
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise NetworkError(f"broker {node_id} is not in the metadata")
        return await self.connection_to(node, channel)

    def open_connection(self, node_id: int, channel: str = MAIN) -> Connection | None:
        """Return the connection to a broker that is open already, if there is one."""
        if self._hub is not None and channel == MAIN:
            return self._hub.open_connection(node_id)
        node = self.metadata.nodes.get(node_id)
        found = None if node is None else self._connections.get((node.host, node.port, channel))
        return found if found is not None and found.is_open else None

    async def connection_to(self, node: Node, channel: str = MAIN) -> Connection:
        """Return a connection to a broker named in an answer, such as a coordinator. Raises: NetworkError."""
        try:
            return await self._connect(node.host, node.port, channel)
        except (NetworkError, RequestTimeoutError) as error:
            explained = type(error)(f"{error}. {self._address_source(node)}")
            self.warnings.say((node.host, node.port), explained)
            raise explained from error

    def _address_source(self, node: Node) -> str:
        """Return the source of an address: often only the broker itself can use it."""
        if (node.host, node.port) in self.config.bootstrap_addresses:
            return f"It is broker {node.node_id}, and one of bootstrap_servers: does it run?"
        source = self._told_by if self._hub is None else self._hub._told_by
        told_by = f", as {source} said" if source else ""
        return (
            f"Broker {node.node_id} advertises that address{told_by}; if the broker runs, let its"
            " advertised.listeners name one that can be reached from here"
        )

    async def any_connection(self) -> Connection:
        """Return a connection to a broker that has little to do. Raises: NetworkError, retriable."""
        self.check_loop()
        if self._hub is not None:
            return await self._hub.any_connection()
        connections = [each for key, each in self._connections.items() if key[2] == MAIN and each.is_open]
        if connections:
            return min(connections, key=lambda each: each.pending_count)
        addresses = [(node.host, node.port) for node in self.metadata.nodes.values()]
        random.shuffle(addresses)
        if not addresses or self.config.metadata_recovery_strategy == REBOOTSTRAP:  # KIP-899
            addresses += self.config.bootstrap_addresses
        errors = []
        for host, port in dict.fromkeys(addresses):
            try:
                return await self._connect(host, port, MAIN)
            except (NetworkError, RequestTimeoutError) as error:
                self.warnings.say((host, port), error)
                errors.append(error)
        raise NetworkError("; ".join(map(str, errors))) from errors[-1]

    async def _connect(self, host: str, port: int, channel: str) -> Connection:
        self.check_loop()
        if self._hub is not None and channel == MAIN:
            return await self._hub._connect(host, port, channel)
        key = (host, port, channel)
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:
            found = self._connections.get(key)
            if found is not None and found.is_open:
                return found
            await self._wait_for_reconnect(host, port)
            self._connections[key] = await self._open(host, port)
            return self._connections[key]

    async def _serve(self, connection: Connection) -> None:
        """Serve until the connection is closed, also where everything around the cluster was cancelled."""
        if self.tasks.cancel_scope.cancel_called:
            connection.close()
        self._served[connection] = None
        try:
            with anyio.CancelScope(shield=True):
                await connection.serve()
        finally:
            self._served.pop(connection, None)
            if connection.likely_cause:  # A retry is not logged.
                words = f"{connection.address} closed the connection{connection.likely_cause}"
                self.warnings.say((connection.address, "large"), words)

    async def _open(self, host: str, port: int) -> Connection:
        backoff, _ = self._backoffs.setdefault(
            (host, port), (Backoff(self.config.reconnect_backoff_ms, self.config.reconnect_backoff_max_ms), 0)
        )
        try:
            connection = await open_connection(
                host,
                port,
                client_id=self.config.client_id,
                timeout_ms=self.config.socket_connection_setup_timeout_ms,
                receive_buffer_bytes=self.config.receive_buffer_bytes,
                send_buffer_bytes=self.config.send_buffer_bytes,
                observer=self._observe,
                tls=self._tls,
            )
            self.tasks.start_soon(self._serve, connection)
            try:
                await connection.negotiate(self.config.request_timeout_ms)
                if self._sasl is not None:
                    await connection.authenticate(self._sasl, self.config.request_timeout_ms)
            except BaseException:
                connection.close()
                raise
        except KohortError:
            self._backoffs[host, port] = (backoff, monotonic_ms() + backoff.next_ms())
            raise
        self._backoffs.pop((host, port), None)  # Another channel's connection may have been there first.
        return connection

    def _observe(self, api_key: int, latency_ms: int, size_bytes: int) -> None:
        if self.observer is not None:
            self.observer(api_key, latency_ms, size_bytes)

    @property
    def connection_count(self) -> int:
        """How many connections are open, not counting the hub's."""
        return sum(each.is_open for each in self._connections.values())

    def disconnect(self, error: KohortError) -> None:
        """Close the connections, not the hub's; waiting requests get `error`. Later requests open others."""
        for each in self._connections.values():
            each.close(error)

    async def _wait_for_reconnect(self, host: str, port: int) -> None:
        _, not_before_ms = self._backoffs.get((host, port), (None, 0))
        await anyio.sleep(max(0.0, not_before_ms - monotonic_ms()) / 1000)

    async def _close_idle(self) -> None:
        while True:
            await anyio.sleep(min(IDLE_CHECK_MS, max(self.config.connections_max_idle_ms, 100)) / 1000)
            oldest_ms = monotonic_ms() - self.config.connections_max_idle_ms
            for key, each in list(self._connections.items()):
                if not each.is_open:
                    del self._connections[key]
                elif each.is_idle and each.last_used_ms < oldest_ms:
                    each.close()
                    del self._connections[key]


def _tls_context(config: ClientConfig) -> "ssl.SSLContext | None":
    """Return what connections shake hands by, None without TLS. Raises: ConfigurationError."""
    if not config.security_protocol.endswith("SSL"):
        return None
    from kohort.client.security import make_context  # noqa: PLC0415  # Not loaded without TLS.

    return make_context(config)


def _authenticator(config: ClientConfig) -> "Authenticator | None":
    """Return the authenticator of this client, None without SASL. Raises: ConfigurationError."""
    if not config.security_protocol.startswith("SASL_"):
        if config.sasl_mechanism is not None:
            raise ConfigurationError(
                f"sasl_mechanism is {config.sasl_mechanism!r}: then security_protocol has to be 'SASL_SSL',"
                " or 'SASL_PLAINTEXT' where nobody reads the network"
            )
        return None
    from kohort.client.sasl import Authenticator  # noqa: PLC0415  # Not loaded without SASL.

    return Authenticator(config)
