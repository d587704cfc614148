"""Real sockets on loopback, a reactor in this process, handlers that the test holds in its hand."""

import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import structlog
import trio
from structlog.testing import LogCapture

from kohort.broker.config import load_config
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.administration.api_versions import unsupported
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport.connection import MAX_REQUESTS_UNDER_WAY, STALLED_MS_MAX
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.reactor import Reactor
from kohort.broker.transport.request import FileRange, Request
from kohort.protocol.messages import (
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from kohort.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from kohort.protocol.schema import Message

HEARTBEAT = 12
HEARTBEAT_VERSION = 4
FETCH = 1
API_VERSIONS = 18


class World:
    """A reactor without a broker behind it, and what its handler was asked."""

    def __init__(self, nursery: trio.Nursery, settings: Sequence[tuple[str, str]]) -> None:
        self.clock = ManualClock()
        self.asked: list[tuple[HeartbeatRequest, Request]] = []
        self.counters = TransportCounters()
        self.current = CurrentConfig(load_config(None, [("socket.request.max.bytes", "1000000"), *settings]))
        self.mailbox = Mailbox()
        self.timers = Timers(self.mailbox.wake)
        self.handlers: dict[int, Handle] = {HEARTBEAT: self._heartbeat}
        self.reactor = Reactor(
            self,
            self.current,
            mailbox=self.mailbox,
            timers=self.timers,
            clock=self.clock,
            workers=TrioWorkers(nursery),
            counters=self.counters,
            end_round=lambda: None,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.reactor.listen(listener)
        self.port: int = listener.getsockname()[1]

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.mailbox.wake()

    def handler_of(self, api_key: int) -> Handle:
        return self.handlers[api_key]

    def unsupported(self) -> Message:
        return unsupported()

    def _heartbeat(self, message: HeartbeatRequest, request: Request) -> None:
        self.asked.append((message, request))

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(5):
            while not condition():
                await trio.sleep(0.001)


@asynccontextmanager
async def world(*settings: tuple[str, str]) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        made = World(nursery, settings)
        nursery.start_soon(made.reactor.run)
        yield made
        made.reactor.stop()
        made.reactor.close()
        made.mailbox.close()
        nursery.cancel_scope.cancel()


def frame(
    correlation_id: int, *, api_key: int = HEARTBEAT, version: int = HEARTBEAT_VERSION, body: bytes = b""
) -> bytes:
    if api_key == HEARTBEAT and not body:
        body = HeartbeatRequest(group_id="g", generation_id=correlation_id, member_id="m").encode(version)
    head = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test" + b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


async def receive(stream: trio.SocketStream, count: int = 1) -> list[tuple[int, bytes]]:
    """Return the next answers as correlation id and the bytes after it."""
    answers: list[tuple[int, bytes]] = []
    data = b""
    with trio.fail_after(5):
        while len(answers) < count:
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                more = await stream.receive_some()
                assert more, "the broker closed the connection"
                data += more
            size = int.from_bytes(data[:4], "big")
            answers.append((int.from_bytes(data[4:8], "big"), data[8 : 4 + size]))
            data = data[4 + size :]
    assert not data
    return answers


async def test_answers_keep_the_order_of_their_requests() -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(1) + frame(2) + frame(3))
        await here.until(lambda: len(here.asked) == 3)
        for _, request in reversed(here.asked):
            request.respond(HeartbeatResponse(error_code=request.correlation_id))
        answers = await receive(stream, 3)
        assert [correlation for correlation, _ in answers] == [1, 2, 3]
        assert [body[-3:-1] for _, body in answers] == [b"\0\1", b"\0\2", b"\0\3"]
        await stream.aclose()
        await here.until(lambda: here.counters.connections_closed == 1)
        assert here.counters.bytes_in == sum(len(frame(number)) for number in (1, 2, 3))
        assert here.counters.bytes_out == sum(8 + len(body) for _, body in answers)


async def test_an_abandoned_request_does_not_hold_up_the_next() -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(1) + frame(2))
        await here.until(lambda: len(here.asked) == 2)
        here.asked[1][1].respond(HeartbeatResponse(error_code=0))
        here.asked[0][1].abandon()
        assert [correlation for correlation, _ in await receive(stream)] == [2]


async def test_a_stream_in_single_bytes_is_the_same_stream() -> None:
    async with world() as here:
        stream = await here.connect()
        for byte in frame(7):
            await stream.send_all(bytes((byte,)))
        await here.until(lambda: len(here.asked) == 1)
        assert here.asked[0][0].generation_id == 7


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 2_000_000_000),
        struct.pack(">i", -5),
        frame(1, api_key=9_999, body=b"x"),
        frame(1, version=99, body=b"x"),
        frame(1, body=b"\xff\xff\xff\xff\xff\xff"),
        struct.pack(">i", 3) + b"abc",
    ],
    ids=["http", "2 GB", "negative", "unknown key", "unknown version", "body", "short header"],
)
async def test_bytes_that_are_no_request_cost_one_line_and_that_connection(garbage: bytes) -> None:
    lines = LogCapture()
    structlog.configure(processors=[lines])
    try:
        async with world() as here:
            bad, good = await here.connect(), await here.connect()
            await bad.send_all(garbage)
            with trio.fail_after(5):
                assert await bad.receive_some() == b""
            await good.send_all(frame(1))
            await here.until(lambda: len(here.asked) == 1)
            assert here.counters.malformed_requests == 1
            assert [line["event"] for line in lines.entries] == ["malformed request"]
    finally:
        structlog.reset_defaults()


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(5, api_key=API_VERSIONS, version=127, body=b"\1\1\0"))
        [(correlation_id, body)] = await receive(stream)
        assert correlation_id == 5
        assert ApiVersionsResponse.decode(body, 0).error_code == 35


async def test_half_a_frame_and_then_silence_is_given_up() -> None:
    async with world() as here:
        half, whole = await here.connect(), await here.connect()
        await half.send_all(frame(1)[:-3])
        await whole.send_all(frame(2))
        await here.until(lambda: len(here.asked) == 1 and here.reactor.connections == 2)
        here.advance(STALLED_MS_MAX // 2)
        await whole.send_all(frame(3))
        await here.until(lambda: len(here.asked) == 2)
        here.advance(STALLED_MS_MAX // 2 + 2_000)
        with trio.fail_after(5):
            assert await half.receive_some() == b""
        assert here.counters.stalled_connections == 1
        assert here.reactor.connections == 1


async def test_too_many_requests_under_way_stop_the_reading() -> None:
    async with world() as here:
        stream = await here.connect()
        count = 20 * MAX_REQUESTS_UNDER_WAY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"".join(map(frame, range(count))))
            await here.until(lambda: len(here.asked) >= MAX_REQUESTS_UNDER_WAY)
            await trio.testing.wait_all_tasks_blocked(0.05)
            reached = len(here.asked)
            assert reached < count // 2
            while len(here.asked) < count:
                asked, here.asked = here.asked, []
                for _, request in asked:
                    request.respond(HeartbeatResponse(error_code=0))
                await receive(stream, len(asked))
                count -= len(asked)
                await here.until(lambda: bool(here.asked))
            nursery.cancel_scope.cancel()


async def test_records_are_sent_from_their_file(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)

    def fetch(message: object, request: Request) -> FetchResponse:
        records = cast(bytes, FileRange(descriptor, 1_000, 2_500_000, None))
        partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=records)
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))

    async with world() as here:
        here.handlers[FETCH] = fetch
        stream = await here.connect()
        await stream.send_all(
            frame(
                9,
                api_key=FETCH,
                version=12,
                body=FetchRequest(max_wait_ms=1, min_bytes=1, topics=()).encode(12),
            )
        )
        [(correlation_id, answer)] = await receive(stream)
        assert correlation_id == 9
        records = FetchResponse.decode(answer[1:], 12).responses[0].partitions[0].records
        assert records is not None
        assert bytes(cast(bytes, records)) == content[1_000:2_501_000]
    os.close(descriptor)


async def test_a_bug_in_a_handler_costs_its_connection_alone() -> None:
    async with world() as here:
        bad, good = await here.connect(), await here.connect()

        def broken(message: object, request: Request) -> FetchResponse:
            raise ValueError("a bug")

        here.handlers[API_VERSIONS] = broken
        await bad.send_all(frame(1, api_key=API_VERSIONS, version=3, body=b"\1\1\0"))
        with trio.fail_after(5):
            assert await bad.receive_some() == b""
        await good.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
async def test_connections_over_the_limit_are_refused(name: str) -> None:
    async with world((name, "2")) as here:
        first, second = await here.connect(), await here.connect()
        third = await here.connect()
        with trio.fail_after(5):
            assert await third.receive_some() == b""
        assert here.counters.connections_refused == 1
        await first.aclose()
        await here.until(lambda: here.reactor.connections == 1)
        fourth = await here.connect()
        await fourth.send_all(frame(1))
        await second.send_all(frame(2))
        await here.until(lambda: len(here.asked) == 2)
