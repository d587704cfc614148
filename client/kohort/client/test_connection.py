import contextlib
import struct
from collections.abc import Awaitable, Callable
from importlib import metadata

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from kohort.client.connecting import open_connection
from kohort.client.connection import Connection
from kohort.client.errors import KohortError, NetworkError, RequestTimeoutError, UnsupportedVersionError
from kohort.client.versions import SOFTWARE_VERSION
from kohort.protocol.framing import FrameReader
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.schema import Message

Server = Callable[[SocketStream], Awaitable[None]]
Client = Callable[[Connection], Awaitable[None]]
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


def versions(*ranges: tuple[int, int, int], code: int = 0) -> ApiVersionsResponse:
    keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges)
    return ApiVersionsResponse(
        error_code=code, api_keys=keys, throttle_time_ms=0, supported_features=(), finalized_features=()
    )


class Requests:
    """Reads requests as (api key, version, correlation id), and answers them."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._reader = FrameReader(1 << 20)
        self._frames: list[bytes] = []

    async def next(self) -> tuple[int, int, int]:
        while not self._frames:
            self._frames += map(bytes, self._reader.receive(await self.stream.receive()))
        found: tuple[int, int, int] = struct.unpack_from(">hhi", self._frames.pop(0))
        return found

    async def answer(self, correlation_id: int, message: Message, version: int, header: bytes = b"") -> None:
        body = struct.pack(">i", correlation_id) + header + message.encode(version)
        await self.stream.send(struct.pack(">i", len(body)) + body)

    async def agree(self) -> None:
        """Answer ApiVersions: Heartbeat 0 to 4 is all there is."""
        _, version, correlation_id = await self.next()
        await self.answer(correlation_id, versions((18, 0, 4), (12, 0, 4)), version)


def run(loop: str, server: Server, client: Client) -> None:
    async def main() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, server)
            connection = await open_connection("127.0.0.1", port, client_id="test", timeout_ms=5_000)
            tasks.start_soon(connection.serve)
            with anyio.fail_after(10):
                await client(connection)
            connection.close()
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=loop)


def heard(code: int) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


@both_loops
def test_pipelined_answers_match_their_requests_in_any_order(loop: str) -> None:
    async def server(stream: SocketStream) -> None:
        requests = Requests(stream)
        await requests.agree()
        first, second = (await requests.next())[2], (await requests.next())[2]
        await requests.answer(second, heard(2), 4, header=b"\0")
        await requests.answer(first, heard(1), 4, header=b"\x01\x05\x02ab")  # A tagged field is passed over.

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        codes: list[int] = []

        async def ask(place: int) -> None:
            answer = await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=5_000)
            codes.append(place * 10 + answer.error_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 1)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask, 2)
        assert sorted(codes) == [11, 22]

    run(loop, server, client)


@both_loops
def test_an_old_broker_is_asked_again_with_a_version_it_supports(loop: str) -> None:
    async def server(stream: SocketStream) -> None:
        requests = Requests(stream)
        _, spoken, correlation_id = await requests.next()
        assert spoken == 4
        await requests.answer(correlation_id, versions((18, 0, 2), code=35), 0)
        _, spoken, correlation_id = await requests.next()
        assert spoken == 2
        await requests.answer(correlation_id, versions((18, 0, 2), (12, 0, 1)), 2)

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        assert connection.version_of(HeartbeatRequest) == 1
        assert connection.version_of(HeartbeatRequest, 0) == 0
        with pytest.raises(UnsupportedVersionError, match="does not speak Fetch"):
            connection.version_of(FetchRequest)

    run(loop, server, client)


@both_loops
def test_a_late_answer_closes_the_connection_and_fails_all_requests(loop: str) -> None:
    async def server(stream: SocketStream) -> None:
        await Requests(stream).agree()
        await anyio.sleep_forever()

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        errors: list[KohortError] = []

        async def ask(timeout_ms: float) -> None:
            try:
                await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=timeout_ms)
            except KohortError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 30)
            tasks.start_soon(ask, 60_000)
        assert [type(each) for each in errors] == [RequestTimeoutError, RequestTimeoutError]
        assert "did not answer Heartbeat within 0.03 s" in str(errors[0])
        assert errors[0].retriable
        assert not connection.is_open
        with pytest.raises(RequestTimeoutError):
            await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=1)

    run(loop, server, client)


@both_loops
def test_a_cancelled_request_leaves_the_connection_usable(loop: str) -> None:
    async def server(stream: SocketStream) -> None:
        requests = Requests(stream)
        await requests.agree()
        for _ in range(2):
            _, _, correlation_id = await requests.next()
            await anyio.sleep(0.05)
            await requests.answer(correlation_id, heard(correlation_id), 4, header=b"\0")

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        with anyio.move_on_after(0.01) as scope:
            await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=5_000)
        assert scope.cancelled_caught
        answer = await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=5_000)
        assert answer.error_code == 3, "its own answer, not the one that nobody waited for"

    run(loop, server, client)


@both_loops
@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02ab",
        b"\0\0\0\x04\0\0\0\x63",
        b"\0\0\0\x06\0\0\0\x01ab",
    ],
)
def test_malformed_bytes_raise_an_error_that_says_so(loop: str, garbage: bytes) -> None:
    async def server(stream: SocketStream) -> None:
        await stream.send(garbage)
        await anyio.sleep_forever()

    async def client(connection: Connection) -> None:
        with pytest.raises(NetworkError, match=r"not speak Kafka's protocol|can't be read"):
            await connection.negotiate(5_000)

    run(loop, server, client)


@both_loops
def test_a_closed_connection_fails_all_requests(loop: str) -> None:
    async def server(stream: SocketStream) -> None:
        await Requests(stream).agree()
        await stream.aclose()

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        with pytest.raises(NetworkError, match="closed the connection"):
            await connection.request(HEARTBEAT, HeartbeatResponse, timeout_ms=5_000)

    run(loop, server, client)


@both_loops
@pytest.mark.parametrize("size", [1_000, 30_000])
def test_a_connection_closed_during_a_large_request_names_the_size_limit(
    monkeypatch: pytest.MonkeyPatch, loop: str, size: int
) -> None:
    monkeypatch.setattr("kohort.client.connection._LARGE_REQUEST_BYTES", 20_000)
    large = HeartbeatRequest(group_id="g" * size, generation_id=1, member_id="m")

    async def server(stream: SocketStream) -> None:
        await (requests := Requests(stream)).agree()
        await requests.next()
        await stream.aclose()

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        with pytest.raises(NetworkError, match="closed the connection") as caught:
            await connection.request(large, HeartbeatResponse, timeout_ms=5_000)
        is_said = "it may take no Heartbeat of 3" in str(caught.value)
        assert is_said == bool(connection.likely_cause) == (size > 20_000)

    run(loop, server, client)


@both_loops
def test_a_refused_connection_names_the_address_and_the_reason(loop: str) -> None:
    async def main() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        await listener.aclose()
        with pytest.raises(NetworkError, match=f"127.0.0.1:{port}: Connection refused"):
            await open_connection("127.0.0.1", port, client_id="test", timeout_ms=5_000)

    anyio.run(main, backend=loop)


def test_brokers_receive_the_installed_version() -> None:
    assert metadata.version("kohort") == SOFTWARE_VERSION


@both_loops
def test_a_request_without_an_answer_is_reported_when_it_was_sent(loop: str) -> None:
    large = HeartbeatRequest(group_id="g", generation_id=1, member_id="m" * 30_000)
    told: list[KohortError | None] = []

    async def server(stream: SocketStream) -> None:
        await Requests(stream).agree()
        await begun.wait()
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive(1 << 20)

    async def client(connection: Connection) -> None:
        await connection.negotiate(5_000)
        for _ in range(1_000):
            connection.send(large, told.append)
        await anyio.sleep(0.1)
        assert told == [], "its peer does not read"
        begun.set()
        while len(told) < 1_000:
            await anyio.sleep(0.001)
        assert set(told) == {None}
        connection.send(large, told.append)
        connection.close(NetworkError("closed"))
        assert isinstance(told[-1], NetworkError)

    begun = anyio.Event()
    run(loop, server, client)
