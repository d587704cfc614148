"""The cluster against scripted brokers on sockets of their own."""

import struct
from collections.abc import Awaitable, Callable
from uuid import UUID

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from kohort.client import cluster as cluster_module
from kohort.client.cluster import Cluster
from kohort.client.config import admin_config
from kohort.client.connection import Connection
from kohort.client.errors import NetworkError, RequestTimeoutError
from kohort.client.values import Node
from kohort.protocol.framing import FrameReader
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kohort.protocol.schema import Message
from tests.ports import free_port

METADATA_VERSION = 13
METADATA, API_VERSIONS = 3, 18
REBOOTSTRAP_REQUIRED = 129


class Broker:
    """Answers ApiVersions and Metadata; `brokers` is whom it names, None hangs up instead."""

    def __init__(self) -> None:
        self.port = 0
        self.brokers: tuple[tuple[int, int], ...] | None = ()  # Ids and ports.
        self.error_code = 0
        self.asked = 0
        self.topic_ids: dict[str, int] = {}
        self.is_silent = False  # It answers nothing about topics.

    async def serve(self, stream: SocketStream) -> None:
        reader = FrameReader(1 << 20)
        async with stream:
            while True:
                try:
                    frames = reader.receive(await stream.receive())
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return
                for frame in frames:
                    api_key, version, correlation_id = struct.unpack_from(">hhi", bytes(frame))
                    if api_key == METADATA and self.brokers is None:
                        return
                    header = b"\0" if api_key != API_VERSIONS else b""
                    if api_key == METADATA and self.is_silent:
                        continue
                    body = struct.pack(">i", correlation_id) + header + self._answer(api_key).encode(version)
                    await stream.send(struct.pack(">i", len(body)) + body)

    def _answer(self, api_key: int) -> Message:
        if api_key == API_VERSIONS:
            keys = ((API_VERSIONS, 0, 4), (METADATA, 0, METADATA_VERSION))
            return ApiVersionsResponse(
                error_code=0,
                api_keys=tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in keys
                ),
                throttle_time_ms=0,
                supported_features=(),
                finalized_features=(),
            )
        self.asked += 1
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port, rack=None)
                for node_id, port in self.brokers or ()
            ),
            cluster_id="c",
            controller_id=1,
            topics=tuple(
                MetadataResponseTopic(
                    error_code=0, name=name, topic_id=UUID(int=each), is_internal=False, partitions=()
                )
                for name, each in self.topic_ids.items()
            ),
            error_code=self.error_code,
        )


Play = Callable[[Cluster, list[Broker]], Awaitable[None]]


def run(play: Play, brokers: int = 1, **options: object) -> None:
    """Let `play` use a cluster whose bootstrap_servers is the first of so many brokers."""

    async def main() -> None:
        made = [Broker() for _ in range(brokers)]
        async with anyio.create_task_group() as tasks:
            for each in made:
                listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
                each.port = listener.extra(SocketAttribute.local_port)
                tasks.start_soon(listener.serve, each.serve)
            config = admin_config({"bootstrap_servers": f"127.0.0.1:{made[0].port}", **options})
            with anyio.fail_after(10):
                async with Cluster(config) as cluster:
                    await play(cluster, made)
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_a_refused_advertised_address_names_the_broker_that_advertised_it() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        nowhere = free_port()
        brokers[0].brokers = ((7, nowhere),)
        await cluster.refresh_metadata(())
        with pytest.raises(NetworkError) as caught:
            await cluster.connection(7)
        assert f"no connection to 127.0.0.1:{nowhere}: Connection refused" in str(caught.value)
        assert f"Broker 7 advertises that address, as 127.0.0.1:{brokers[0].port} said" in str(caught.value)
        assert "advertised.listeners" in str(caught.value)

    run(play)


def test_when_no_known_broker_is_reachable_it_bootstraps_again() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        brokers[0].brokers = ((7, free_port()),)
        await cluster.refresh_metadata(())
        (first,) = [await cluster.any_connection()]
        first.close()
        while first.is_open:
            await anyio.sleep(0)
        assert (await cluster.any_connection()).address == f"127.0.0.1:{brokers[0].port}"

    run(play)


def test_without_rebootstrap_only_known_brokers_are_tried() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        nowhere = free_port()
        brokers[0].brokers = ((7, nowhere),)
        await cluster.refresh_metadata(())
        first = await cluster.any_connection()
        first.close()
        while first.is_open:
            await anyio.sleep(0)
        with pytest.raises(NetworkError, match=f"127.0.0.1:{nowhere}"):
            await cluster.any_connection()

    run(play, metadata_recovery_strategy="none")


def test_a_broker_can_demand_a_rebootstrap() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        first, second = brokers
        first.brokers = ((7, second.port),)
        await cluster.refresh_metadata(())
        await cluster.connection(7)
        first.error_code = second.error_code = REBOOTSTRAP_REQUIRED
        with pytest.raises(NetworkError, match="bootstrap again") as caught:
            await cluster.refresh_metadata(())
        assert caught.value.retriable
        assert cluster.metadata.nodes == {}
        first.error_code = 0
        await cluster.refresh_metadata(())
        assert set(cluster.metadata.nodes) == {7}

    run(play, brokers=2)


def test_after_long_metadata_failures_it_bootstraps_again() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        first, second = brokers
        first.brokers = second.brokers = ((7, second.port),)
        await cluster.refresh_metadata(())
        first.brokers = second.brokers = None
        with pytest.raises(NetworkError):
            await cluster.refresh_metadata(())
        first.brokers = ((7, second.port),)
        await cluster.refresh_metadata(())
        assert first.asked == 2

    run(play, brokers=2, metadata_recovery_rebootstrap_trigger_ms=0)


def test_the_least_busy_broker_is_asked() -> None:
    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        brokers[0].brokers = ((1, brokers[0].port), (2, brokers[1].port))
        await cluster.refresh_metadata(())
        busy, idle = await cluster.connection(1), await cluster.connection(2)
        assert busy is not idle
        assert busy.pending_count == idle.pending_count == 0
        brokers[0].brokers = None
        assert await cluster.any_connection() in {busy, idle}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_ask, busy)
            await anyio.sleep(0)
            assert busy.pending_count == 1
            assert await cluster.any_connection() is idle

    run(play, brokers=2)


async def _ask(connection: Connection) -> None:
    request = MetadataRequest(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    with pytest.raises((NetworkError, RequestTimeoutError)):
        await connection.request(request, MetadataResponse, timeout_ms=5_000)


def test_a_tls_listener_is_recognized() -> None:
    async def main() -> None:
        async def alert(stream: SocketStream) -> None:
            await stream.receive()
            await stream.send(b"\x15\x03\x03\x00\x02\x02\x50")
            await stream.aclose()

        async with anyio.create_task_group() as tasks:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            port = listener.extra(SocketAttribute.local_port)
            tasks.start_soon(listener.serve, alert)
            async with Cluster(admin_config({"bootstrap_servers": f"127.0.0.1:{port}"})) as cluster:
                with pytest.raises(NetworkError, match="it speaks TLS: security_protocol='SSL'"):
                    await cluster.any_connection()
            tasks.cancel_scope.cancel()

    anyio.run(main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_connections_are_closed_with_the_cluster(loop: str) -> None:
    async def main() -> None:
        gone = anyio.Event()

        async def serve(stream: SocketStream) -> None:
            await broker.serve(stream)
            gone.set()

        broker = Broker()
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(SocketAttribute.local_port)
            async with Cluster(admin_config({"bootstrap_servers": f"127.0.0.1:{port}"})) as cluster:
                connection = await cluster.any_connection()
            with anyio.fail_after(5):
                await gone.wait()
            assert not connection.is_open, "whoever holds it still is told"
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=loop)


MISSING, OLD, NEW, SILENT = 0, 1, 2, 4


@pytest.mark.parametrize("topics", [("t",), None])
@pytest.mark.parametrize(
    "known, told, others, believed",
    [
        (NEW, OLD, (NEW, NEW), NEW),
        (NEW, OLD, (NEW,), NEW),
        (NEW, OLD, (NEW, OLD), OLD),
        (OLD, NEW, (NEW, OLD), NEW),
        (OLD, NEW, (OLD, OLD), OLD),
        (OLD, NEW, (MISSING, MISSING), NEW),
        (OLD, NEW, (), NEW),
        (OLD, NEW, (SILENT, SILENT), NEW),
        (OLD, NEW, (3, OLD), OLD),
    ],
)
def test_a_changed_topic_id_counts_if_most_brokers_report_it(
    topics: tuple[str, ...] | None, known: int, told: int, others: tuple[int, ...], believed: int
) -> None:
    """Nobody can tell the newer one of two ids: a broker that lags behind tells the older one."""

    async def play(cluster: Cluster, brokers: list[Broker]) -> None:
        first = brokers[0]
        first.brokers = tuple((number, each.port) for number, each in enumerate(brokers))
        first.topic_ids = {"t": known, "u": 9}
        await cluster.refresh_metadata(topics)
        first.topic_ids["t"] = told
        for each, topic_id in zip(brokers[1:], others, strict=True):
            each.brokers = first.brokers
            each.topic_ids = {} if topic_id == MISSING else {"t": topic_id}
            each.is_silent = topic_id == SILENT
        await cluster.refresh_metadata(topics)
        assert cluster.metadata.topics["t"].topic_id == UUID(int=believed)
        asked = [each.asked for each in brokers]
        first.topic_ids["t"] = believed
        await cluster.refresh_metadata(topics)
        assert [each.asked for each in brokers] == [asked[0] + 1, *asked[1:]], "nothing is new"

    run(play, brokers=len(others) + 1)


async def test_the_number_of_cached_coordinators_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "COORDINATORS_KEPT", 3)
    cluster = Cluster(admin_config({}))
    asked: list[str] = []

    async def find(key: str, key_type: int) -> Node:
        asked.append(key)
        return Node(1, "h", 9)

    monkeypatch.setattr(cluster, "_find_coordinator", find)
    for number in range(10):
        for _ in range(2):
            await cluster.coordinator(f"g{number}")
        assert len(cluster._coordinators) <= 3
    assert asked == [f"g{number}" for number in range(10)]
