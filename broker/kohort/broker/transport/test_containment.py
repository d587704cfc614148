"""What goes wrong with one request costs its own connection: the others are answered as if nothing were."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import structlog
import trio
from structlog.testing import LogCapture

from kohort.broker.transport.connection import Connection
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import API_VERSIONS, HEARTBEAT, World, frame, receive, world
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse


class TooLarge(HeartbeatResponse):
    """An answer for which there is no memory."""

    def encode_parts(self, version: int) -> Any:
        raise MemoryError


def unencodable() -> HeartbeatResponse:
    return HeartbeatResponse(error_code=1 << 20)


def too_large() -> HeartbeatResponse:
    return TooLarge(error_code=0)


MAKERS = [unencodable, too_large]
Make = Callable[[], HeartbeatResponse]


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    captured = LogCapture()
    structlog.configure(processors=[captured])
    yield captured.entries
    structlog.reset_defaults()


async def ends(stream: trio.SocketStream) -> None:
    with trio.fail_after(5):
        assert await stream.receive_some() == b""


async def check_others(here: World, good: trio.SocketStream) -> None:
    """A request that was waiting, and a new one, are answered to the client beside."""
    waiting = here.asked.pop()[1]
    waiting.respond(HeartbeatResponse(error_code=7))
    assert [each for each, _ in await receive(good)] == [waiting.correlation_id]
    await good.send_all(frame(9))
    await here.until(lambda: bool(here.asked))


async def beside(here: World) -> trio.SocketStream:
    """Return a client with a request that waits for its answer."""
    stream = await here.connect()
    await stream.send_all(frame(1))
    await here.until(lambda: len(here.asked) == 1)
    return stream


@pytest.mark.parametrize("make", MAKERS)
async def test_an_answer_at_once_that_cannot_be_encoded(make: Make, lines: list[Any]) -> None:
    async with world() as here:
        good, bad = await beside(here), await here.connect()
        here.handlers[API_VERSIONS] = lambda message, request: make()
        await bad.send_all(frame(1, api_key=API_VERSIONS, version=3, body=b"\1\1\0"))
        await ends(bad)
        await check_others(here, good)
    told = [line for line in lines if line["event"] == "an answer cannot be encoded"]
    assert [(line["api"], line["peer"].startswith("127.0.0.1:")) for line in told] == [("ApiVersions", True)]


@pytest.mark.parametrize("make", MAKERS)
async def test_an_answer_of_a_task_that_cannot_be_encoded(make: Make, lines: list[Any]) -> None:
    """As DeleteTopics of a name so long that the error message about it has no room in the answer."""
    async with world() as here:
        good, bad = await beside(here), await here.connect()

        async def later(message: object, request: Request) -> HeartbeatResponse:
            await trio.sleep(0.01)
            return make()

        here.handlers[API_VERSIONS] = later
        await bad.send_all(frame(1, api_key=API_VERSIONS, version=3, body=b"\1\1\0"))
        await ends(bad)
        await check_others(here, good)
    assert "an answer cannot be encoded" in [line["event"] for line in lines]


@pytest.mark.parametrize("make", MAKERS)
async def test_one_answer_of_a_flush_that_cannot_be_encoded_closes_only_its_connection(
    make: Make, lines: list[Any]
) -> None:
    """Whoever answers many at once, as the flusher and a completed join do, hears of no error."""
    async with world() as here:
        streams = [await here.connect() for _ in range(3)]
        for number, stream in enumerate(streams):
            await stream.send_all(frame(number))
        await here.until(lambda: len(here.asked) == 3)
        requests = sorted((each for _, each in here.asked), key=lambda each: each.correlation_id)

        def answer_all() -> None:
            requests[0].respond(HeartbeatResponse(error_code=0))
            requests[1].respond(make())
            requests[2].respond(HeartbeatResponse(error_code=0))

        here.mailbox.post(answer_all)
        assert [each for each, _ in await receive(streams[0])] == [0]
        await ends(streams[1])
        assert [each for each, _ in await receive(streams[2])] == [2]


async def test_a_failing_task_closes_only_its_connection(lines: list[Any]) -> None:
    async with world() as here:
        good, bad = await beside(here), await here.connect()

        async def broken(message: object, request: Request) -> ApiVersionsResponse:
            raise MemoryError

        here.handlers[API_VERSIONS] = broken
        await bad.send_all(frame(1, api_key=API_VERSIONS, version=3, body=b"\1\1\0"))
        await ends(bad)
        await check_others(here, good)
    assert "a handler failed" in [line["event"] for line in lines]


@pytest.mark.interpreted
async def test_answers_that_cannot_be_sent_close_their_connection(
    monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    real = Connection.send_answers

    def send_answers(self: Connection) -> None:
        if self.client_software == "bad":
            raise MemoryError
        real(self)

    monkeypatch.setattr(Connection, "send_answers", send_answers)
    async with world() as here:
        good, bad = await beside(here), await here.connect()
        await bad.send_all(frame(2))
        await here.until(lambda: len(here.asked) == 2)
        request = here.asked.pop()[1]
        cast(Connection, request.connection).client_software = "bad"
        request.respond(HeartbeatResponse(error_code=0))
        await ends(bad)
        await check_others(here, good)


async def test_a_failing_close_callback_does_not_prevent_the_others(lines: list[Any]) -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)
        heard: list[int] = []

        def broken() -> None:
            raise KeyError("a bug")

        here.asked[0][1].connection.on_close += [broken, lambda: heard.append(1)]
        await stream.aclose()
        await here.until(lambda: heard == [1])


async def test_bugs_that_clients_trigger_are_not_logged_without_end(lines: list[Any]) -> None:
    async with world() as here:
        here.handlers[HEARTBEAT] = lambda message, request: unencodable()
        for _ in range(30):
            stream = await here.connect()
            await stream.send_all(frame(1))
            await ends(stream)
        assert len(lines) < 10
        here.advance(3_000)
        await here.until(lambda: any("left_out" in line for line in lines))
        assert sum(line.get("left_out", 0) for line in lines) == 30 - 5


async def test_malformed_frames_are_not_logged_without_end(lines: list[Any]) -> None:
    async with world() as here:
        for _ in range(30):
            stream = await here.connect()
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await ends(stream)
        assert [line["event"] for line in lines] == ["malformed request"] * 5
        assert here.counters.malformed_requests == 30
