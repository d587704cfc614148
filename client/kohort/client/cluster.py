"""A client's view of the cluster: connections to brokers, topics, leaders and coordinators."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypeVar
from uuid import UUID

import anyio

from kohort.client.config import ClientConfig
from kohort.client.connections import MAIN, REBOOTSTRAP, Connections
from kohort.client.errors import BrokerError, KohortError, NetworkError, RequestTimeoutError, check
from kohort.client.metadata import TopicMetadata
from kohort.client.retry import Backoff, Deadline, monotonic_ms
from kohort.client.topic_ids import TopicIds, metadata_request, most_reported, reported_ids
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.metadata import MetadataResponse
from kohort.protocol.schema import Message

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")

GROUPS, TRANSACTIONS = 0, 1  # The key types of a coordinator.
PATIENCE_MS = 500  # What takes longer than a new topic or a new leader does is worth a warning.
COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
COORDINATORS_KEPT = 10_000
NEVER_MS = -(1 << 62)


class Cluster(Connections):
    """Connections, metadata and coordinators of one cluster; an async context manager.

    With a `hub`, another cluster that is open for longer, it shares that one's metadata and coordinators.
    """

    def __init__(self, config: ClientConfig, hub: Self | None = None) -> None:
        super().__init__(config, hub)
        self._coordinators: dict[tuple[int, str], Node] = {} if hub is None else hub._coordinators
        self._refreshing = anyio.Lock()
        self._renewed_ms = monotonic_ms()  # When the metadata was answered last.

    # Requests

    async def request_any(
        self, request: Message, answer: type[Answer], *, timeout_ms: float | None = None
    ) -> Answer:
        """Return the answer of any reachable broker. Raises: KohortError."""
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
        key: str,
        request: Message,
        answer: type[Answer],
        *,
        key_type: int = GROUPS,
        channel: str = MAIN,
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> Answer:
        """Return the answer of the coordinator of a group or a transactional id.

        It is looked up if unknown, and again after a broken connection. Raises: KohortError.
        """
        node = await self.coordinator(key, key_type)
        try:
            connection = await self.connection_to(node, channel)
            return await connection.request(
                request, answer, timeout_ms=self._timeout_ms(timeout_ms), highest=highest
            )
        except (NetworkError, RequestTimeoutError):
            self.forget_coordinator(key, key_type)
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

        `create` lets the broker create missing topics, if its auto.create.topics.enable is on.
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
                    raise NetworkError(f"{connection.address} asks this client to bootstrap again")
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
        """Apply an answer; of a topic that seems to be recreated only what most brokers report."""
        known = self.metadata.ids_before(response)
        kept: frozenset[str] = frozenset()
        if known:
            self.metadata.learn_nodes(response)
            kept = most_reported(known, await self.reported_topic_ids(known))
        self.metadata.update(response, topics, asked_ms, kept)

    async def reported_topic_ids(self, topics: Iterable[str]) -> list[TopicIds]:
        """Return the ids that a few brokers report for these topics: while one lags behind they differ."""
        request = metadata_request(tuple(topics))

        async def ask(node: Node) -> MetadataResponse:
            connection = await self._connect(node.host, node.port, MAIN)
            return await connection.request(request, MetadataResponse, timeout_ms=self._timeout_ms(None))

        return await reported_ids(ask, tuple(self.metadata.nodes.values()))

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

    async def coordinator(self, key: str, key_type: int = GROUPS) -> Node:
        """Return the broker that coordinates a group, or a transactional id. Raises: BrokerError."""
        found = self._coordinators.get((key_type, key))
        if found is None:
            found = await self._find_coordinator(key, key_type)
            if len(self._coordinators) >= COORDINATORS_KEPT:  # An admin client may ask about every group.
                self._coordinators.clear()
            self._coordinators[key_type, key] = found
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

    def forget_coordinator(self, key: str, key_type: int = GROUPS) -> None:
        """Look the coordinator up again before the next request to it."""
        self._coordinators.pop((key_type, key), None)

    def check_coordinated(
        self, key: str, code: int, message: str | None = None, key_type: int = GROUPS
    ) -> None:
        """Return if a coordinator's answer has no error. Raises: BrokerError.

        If another broker coordinates by now, it is looked up before the next request.
        """
        if code in COORDINATOR_MOVED:
            self.forget_coordinator(key, key_type)
        check(code, message)

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        return self.config.request_timeout_ms if timeout_ms is None else timeout_ms


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
