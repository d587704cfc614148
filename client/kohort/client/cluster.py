"""The cluster as a client sees it: connections to its brokers, its topics, who leads and coordinates."""

import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from kohort.client.config import ClientConfig
from kohort.client.connection import Connection, Observer
from kohort.client.errors import (
    BrokerError,
    ClosedError,
    ConfigurationError,
    KohortError,
    NetworkError,
    RequestTimeoutError,
    check,
)
from kohort.client.home_loop import HomeLoop
from kohort.client.metadata import Metadata, TopicMetadata
from kohort.client.retry import Backoff, Deadline, monotonic_ms
from kohort.client.signal import Signal
from kohort.client.topic_ids import TopicIds, ids_told, metadata_request, still_told
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.client.warnings import Warnings
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.metadata import MetadataResponse
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    import ssl

    from kohort.client.sasl import Authenticator

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")
LastWords = Callable[[], Awaitable[object]]

MAIN, FETCH, GROUP = "main", "fetch", "group"
"""Channels: a broker answers one connection's requests in order, so that what waits there long (a
fetch, a join) has a connection of its own and delays nothing else."""

GROUPS, TRANSACTIONS = 0, 1  # What a coordinator is found for.
PATIENCE_MS = 500  # What takes longer than a new topic or a new leader does is worth a warning.
IDLE_CHECK_MS = 5_000
COORDINATORS_KEPT = 10_000
REBOOTSTRAP = "rebootstrap"
NEVER_MS = -(1 << 62)


class Cluster:
    """Connections, metadata and coordinators of one cluster; an async context manager.

    Its connections and tasks live in a task group of its own and end with it, and not before: who is
    cancelled can still say good-bye. With a `hub`, another cluster that is open for longer, it has that
    one's metadata, coordinators and main connections, and of its own only those of other channels.
    """

    def __init__(self, config: ClientConfig, hub: "Cluster | None" = None) -> None:
        self.config = config
        self._hub = hub
        self.metadata: Metadata = Metadata() if hub is None else hub.metadata
        self.warnings: Warnings = Warnings() if hub is None else hub.warnings
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._served: set[Connection] = set()
        self._locks: dict[tuple[str, int, str], anyio.Lock] = {}
        self._backoffs: dict[tuple[str, int], tuple[Backoff, float]] = {}
        self._tls = _tls_context(config)
        self._sasl = _authenticator(config)
        self._coordinators: dict[str, Node] = {} if hub is None else hub._coordinators
        self._transaction_coordinators: dict[str, Node] = {}
        self._refreshing = anyio.Lock()
        self._renewed_ms = monotonic_ms()  # When the metadata was answered last.
        self._told_by = ""  # The broker that answered it.
        self.observer: Observer | None = None
        self._tasks: TaskGroup | None = None
        self._home: HomeLoop | None = None
        self._ends: anyio.Event | None = None
        self._have_tasks_ended = False
        self._last_words: tuple[LastWords, float] | None = None
        self._guests = 0  # Clusters that have this one as their hub.
        self._guest_gone = Signal()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._home = HomeLoop()
        host = await self._stack.enter_async_context(anyio.create_task_group())
        self._ends, opened = anyio.Event(), anyio.Event()
        host.start_soon(self._hold_tasks, opened)
        try:
            await opened.wait()
        except BaseException:
            self._end_tasks()
            await self._stack.aclose()
            raise
        if self.config.connections_max_idle_ms >= 0:
            self.tasks.start_soon(self._close_idle)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_tasks()
        if self._home is not None and not self._home.is_in_its_task():
            raise RuntimeError(
                "this client was opened by one task and is closed by another: in fixtures, in place of"
                " `async with`, call `await client.start()` and `await client.stop()`"
            )
        await self._stack.aclose()
        self._tasks = None

    def check_loop(self) -> None:
        """Return in the event loop that this was opened in. Raises: ConcurrentAccessError."""
        if self._home is not None:
            self._home.check()

    async def _hold_tasks(self, opened: anyio.Event) -> None:
        """Keep the tasks until they are ended; who is cancelled needs them until it has said good-bye.

        They can be ended without whoever has opened the cluster, and a failure of one ends that.
        """
        if self._hub is not None:
            self._hub._guests += 1
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as self._tasks:
                    opened.set()
                    assert self._ends is not None
                    try:
                        await self._ends.wait()
                        if self._last_words is not None:
                            await self._say_last_words(*self._last_words)
                    finally:  # Where a task has failed, too: connections end by being closed alone.
                        self._end_tasks()
        finally:
            self._have_tasks_ended = True
            if self._hub is not None:
                self._hub._guests -= 1
                self._hub._guest_gone.set()

    async def wait_for_guests(self) -> None:
        """Return when no other cluster uses this one as its hub any more."""
        while self._guests:
            await self._guest_gone.wait()

    def _end_tasks(self) -> None:
        if self._ends is not None:
            self._ends.set()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        for each in tuple(self._served):
            each.close()

    def abandon(self, last_words: LastWords, timeout_ms: float) -> None:
        """Say the last words in the background, and then end all tasks: nobody holds the client any more."""
        if self._ends is not None:
            self._last_words = last_words, timeout_ms
            self._ends.set()

    async def _say_last_words(self, last_words: LastWords, timeout_ms: float) -> None:
        try:
            with anyio.move_on_after(timeout_ms / 1000):
                await last_words()
        except KohortError as error:
            logger.debug("a client that nobody had closed: %s", error)

    @property
    def is_open(self) -> bool:
        """Whether it was opened and is not closed, though its tasks may have ended with their loop."""
        return self._tasks is not None

    @property
    def takes_tasks(self) -> bool:
        """Whether tasks can be started: it is open, and nothing has ended them, such as a failure of one."""
        return self._tasks is not None and not self._have_tasks_ended

    @property
    def tasks(self) -> TaskGroup:
        """The task group that ends with the cluster. Raises: ClosedError outside of `async with`."""
        if self._tasks is None:
            raise ClosedError("this client is not open: use it inside `with` or `async with`")
        return self._tasks

    # Requests

    async def request_any(
        self, request: Message, answer: type[Answer], *, timeout_ms: float | None = None
    ) -> Answer:
        """Return the answer of whichever broker can be reached. Raises: KohortError."""
        connection = await self.any_connection()
        return await connection.request(request, answer, timeout_ms=self._timeout_ms(timeout_ms))

    async def request(
        self,
        node_id: int,
        request: Message,
        answer: type[Answer],
        *,
        channel: str = MAIN,
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> Answer:
        """Return the answer of one broker. Raises: KohortError."""
        connection = await self.connection(node_id, channel)
        return await connection.request(
            request, answer, timeout_ms=self._timeout_ms(timeout_ms), highest=highest
        )

    async def request_coordinator(
        self,
        group_id: str,
        request: Message,
        answer: type[Answer],
        *,
        channel: str = MAIN,
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> Answer:
        """Return the answer of a group's coordinator, which is looked up if it is not known.

        Raises: KohortError. A broken connection makes the coordinator be looked up again.
        """
        node = await self.coordinator(group_id)
        try:
            connection = await self.connection_to(node, channel)
            return await connection.request(
                request, answer, timeout_ms=self._timeout_ms(timeout_ms), highest=highest
            )
        except (NetworkError, RequestTimeoutError):
            self.forget_coordinator(group_id)
            raise

    async def request_transaction_coordinator(
        self, transactional_id: str, request: Message, answer: type[Answer], *, highest: int | None = None
    ) -> Answer:
        """Return the answer of a transactional id's coordinator, which is looked up if it is not known.

        Raises: KohortError. A broken connection makes the coordinator be looked up again.
        """
        node = await self.transaction_coordinator(transactional_id)
        try:
            connection = await self.connection_to(node)
            return await connection.request(
                request, answer, timeout_ms=self.config.request_timeout_ms, highest=highest
            )
        except (NetworkError, RequestTimeoutError):
            self.forget_transaction_coordinator(transactional_id)
            raise

    async def retrying(
        self, attempt: Callable[[], Awaitable[Result]], *, deadline: Deadline | None = None
    ) -> Result:
        """Return what `attempt` returns, which is repeated while its errors are retriable.

        Raises: the last KohortError when the deadline (default_api_timeout_ms) has passed.
        """
        deadline = deadline or Deadline(self.config.default_api_timeout_ms)
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        last: KohortError | None = None
        while True:
            try:
                with anyio.fail_after(deadline.remaining_ms / 1000):
                    return await attempt()
            except KohortError as error:
                if not error.retriable:
                    raise
                last = error
            except TimeoutError:
                pass
            wait_ms = backoff.next_ms()
            if wait_ms >= deadline.remaining_ms:
                raise last or RequestTimeoutError(f"not done within {deadline.timeout_ms:.0f} ms")
            await anyio.sleep(wait_ms / 1000)

    # Metadata

    async def refresh_metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> None:
        """Ask a broker about these topics, or with None about all. Raises: KohortError.

        `create` lets the broker make topics that don't exist, if its auto.create.topics.enable is on.
        """
        if self._hub is not None:
            await self._hub.refresh_metadata(topics, create=create)
            return
        wanted = None if topics is None else tuple(sorted(set(topics)))
        began_ms = monotonic_ms()
        async with self._refreshing:
            if self.metadata.covers(wanted, since_ms=began_ms):
                return  # Another task asked the same while this one waited for its turn.
            asked_ms = monotonic_ms()
            try:
                connection = await self.any_connection()
                request = metadata_request(wanted, create=create)
                response = await connection.request(
                    request, MetadataResponse, timeout_ms=self._timeout_ms(None)
                )
                if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                    self._renewed_ms = NEVER_MS
                    raise NetworkError(f"{connection.address} wants this client to begin again")
                check(response.error_code)
            except KohortError as error:
                self._metadata_failed(error)
                raise
            self._told_by = connection.address
            self._renewed_ms = monotonic_ms()
            await self._take_in(response, wanted, asked_ms)

    def _metadata_failed(self, error: KohortError) -> None:
        """Begin again at bootstrap_servers if a broker wants that, or none answered for long (KIP-1102)."""
        if self.config.metadata_recovery_strategy != REBOOTSTRAP:
            return
        silent_ms = monotonic_ms() - self._renewed_ms
        if silent_ms >= self.config.metadata_recovery_rebootstrap_trigger_ms:
            logger.debug("beginning again at bootstrap_servers: %s", error)
            self._renewed_ms = monotonic_ms()
            self.metadata.nodes = {}
            self.disconnect(NetworkError("the client begins again at bootstrap_servers"))

    async def topic(
        self, name: str, *, create: bool = False, deadline: Deadline | None = None
    ) -> TopicMetadata:
        """Return a topic with at least one leader. Raises: BrokerError if there is none in time."""

        async def attempt() -> TopicMetadata:
            found = self.metadata.topics.get(name)
            if found is None or found.error or not found.partitions:
                await self.refresh_metadata([name], create=create)
                found = self.metadata.topics.get(name)
            error = self.topic_error(name)
            if error is not None:
                self.warnings.say(("topic", name), error, after_ms=PATIENCE_MS)
                raise error
            assert found is not None
            self.warnings.is_over(("topic", name))
            return found

        return await self.retrying(attempt, deadline=deadline)

    async def topic_names(self, *, include_internal: bool) -> tuple[str, ...]:
        """Return the names of all topics, sorted. Raises: KohortError."""
        await self.retrying(lambda: self.refresh_metadata(None))
        known = self.metadata.topics.values()
        return tuple(sorted(each.name for each in known if include_internal or not each.is_internal))

    async def refresh_metadata_by_id(self, topic_ids: Iterable[UUID]) -> None:
        """Ask a broker about the topics with these ids. Raises: KohortError."""
        if self._hub is not None:
            await self._hub.refresh_metadata_by_id(topic_ids)
            return
        async with self._refreshing:
            asked_ms = monotonic_ms()
            connection = await self.any_connection()
            request = metadata_request(ids=sorted(topic_ids))
            response = await connection.request(request, MetadataResponse, timeout_ms=self._timeout_ms(None))
            check(response.error_code)
            names = tuple(each.name for each in response.topics if each.name)
            await self._take_in(response, names, asked_ms)

    async def _take_in(
        self, response: MetadataResponse, topics: tuple[str, ...] | None, asked_ms: int
    ) -> None:
        """Take in an answer, but of a topic that seems to be made anew only what most brokers say."""
        known = self.metadata.ids_before(response)
        kept: frozenset[str] = frozenset()
        if known:
            self.metadata.learn_nodes(response)
            kept = still_told(known, await self.topic_ids_told(known))
        self.metadata.update(response, topics, asked_ms, kept)

    async def topic_ids_told(self, topics: Iterable[str]) -> list[TopicIds]:
        """Return which ids each of a few brokers tells of these topics: while one lags behind they differ."""
        request = metadata_request(tuple(topics))

        async def ask(node: Node) -> MetadataResponse:
            connection = await self._connect(node.host, node.port, MAIN)
            return await connection.request(request, MetadataResponse, timeout_ms=self._timeout_ms(None))

        return await ids_told(ask, tuple(self.metadata.nodes.values()))

    def topic_error(self, name: str) -> BrokerError | None:
        """Return why a topic can't be used, as far as is known."""
        found = self.metadata.topics.get(name)
        if found is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return _topic_error(name, found.error) if found.error else None

    def leader(self, partition: TopicPartition) -> PartitionInfo:
        """Return the partition with its leader. Raises: BrokerError, retriable, if it has none."""
        topic = self.metadata.topics.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic is not None else None
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition} does not exist")
        if found.leader < 0:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader")
        return found

    # Coordinators

    async def coordinator(self, group_id: str) -> Node:
        """Return the broker that coordinates a group. Raises: BrokerError."""
        found = self._coordinators.get(group_id)
        if found is None:
            found = await self._find_coordinator(group_id, GROUPS)
            if len(self._coordinators) >= COORDINATORS_KEPT:  # An admin client may ask about every group.
                self._coordinators.clear()
            self._coordinators[group_id] = found
        return found

    async def transaction_coordinator(self, transactional_id: str) -> Node:
        """Return the broker that coordinates a transactional id. Raises: BrokerError."""
        found = self._transaction_coordinators.get(transactional_id)
        if found is None:
            found = await self._find_coordinator(transactional_id, TRANSACTIONS)
            self._transaction_coordinators[transactional_id] = found
        return found

    async def _find_coordinator(self, key: str, key_type: int) -> Node:
        connection = await self.any_connection()
        several = connection.version_of(FindCoordinatorRequest) >= 4
        request = FindCoordinatorRequest(
            key="" if several else key, key_type=key_type, coordinator_keys=(key,) if several else ()
        )
        answer = await connection.request(
            request, FindCoordinatorResponse, timeout_ms=self.config.request_timeout_ms
        )
        return _coordinator_node(answer)

    def forget_coordinator(self, group_id: str) -> None:
        """Look the coordinator up again before the next request to it."""
        self._coordinators.pop(group_id, None)

    def forget_transaction_coordinator(self, transactional_id: str) -> None:
        """Look the coordinator up again before the next request to it."""
        self._transaction_coordinators.pop(transactional_id, None)

    # Connections

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
        """Return a connection to a broker that was told of, such as a coordinator. Raises: NetworkError."""
        try:
            return await self._connect(node.host, node.port, channel)
        except (NetworkError, RequestTimeoutError) as error:
            explained = type(error)(f"{error}. {self._who_said(node)}")
            self.warnings.say((node.host, node.port), explained)
            raise explained from error

    def _who_said(self, node: Node) -> str:
        """Return where an address comes from: most often it is one that only the broker itself can use."""
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
        self._served.add(connection)
        try:
            with anyio.CancelScope(shield=True):
                await connection.serve()
        finally:
            self._served.discard(connection)
            if connection.suspicion:  # Whoever tries again does so without a word.
                words = f"{connection.address} closed the connection{connection.suspicion}"
                self.warnings.say((connection.address, "large"), words)

    async def _open(self, host: str, port: int) -> Connection:
        backoff, _ = self._backoffs.setdefault(
            (host, port), (Backoff(self.config.reconnect_backoff_ms, self.config.reconnect_backoff_max_ms), 0)
        )
        try:
            connection = await Connection.open(
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
        """Close the connections, not the hub's; whoever waits gets `error`. Later requests open others."""
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

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        return self.config.request_timeout_ms if timeout_ms is None else timeout_ms


def _tls_context(config: ClientConfig) -> "ssl.SSLContext | None":
    """Return what connections shake hands by, None without TLS. Raises: ConfigurationError."""
    if not config.security_protocol.endswith("SSL"):
        return None
    from kohort.client.security import make_context  # noqa: PLC0415  # In the clear nobody pays for it.

    return make_context(config)


def _authenticator(config: ClientConfig) -> "Authenticator | None":
    """Return what says to brokers who this client is, None where nobody asks. Raises: ConfigurationError."""
    if not config.security_protocol.startswith("SASL_"):
        if config.sasl_mechanism is not None:
            raise ConfigurationError(
                f"sasl_mechanism is {config.sasl_mechanism!r}: then security_protocol has to be 'SASL_SSL',"
                " or 'SASL_PLAINTEXT' where nobody reads the network"
            )
        return None
    from kohort.client.sasl import Authenticator  # noqa: PLC0415  # Elsewhere nobody pays for it.

    return Authenticator(config)


def _coordinator_node(answer: FindCoordinatorResponse) -> Node:
    if answer.coordinators:
        found = answer.coordinators[0]
        check(found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)
    check(answer.error_code, answer.error_message)
    return Node(answer.node_id, answer.host, answer.port)


def _topic_error(name: str, code: int) -> BrokerError:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return BrokerError(code, f"topic {name!r} does not exist")
    return BrokerError(code, f"topic {name!r}")
