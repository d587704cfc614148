"""Connections under each poller: order, garbage, limits, silence."""

import os
import ssl
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import structlog
import trio
from structlog.testing import LogCapture

from kohort.broker.handlers.prepared import Prepared
from kohort.broker.transport import test_support
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.peer import REQUESTS_IN_FLIGHT_MAX, STALLED_MS_MAX
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import (
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    World,
    fetch,
    fetched,
    frame,
    receive,
)
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse

Begin = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["epoll", "kqueue", "poll"])
def world(request: pytest.FixtureRequest) -> Begin:
    """Return what begins a world with settings, under each poller."""
    return partial(test_support.world, poller=request.param)


async def test_answers_keep_the_order_of_their_requests(world: Begin) -> None:
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


async def test_an_abandoned_request_does_not_delay_the_next(world: Begin) -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(1) + frame(2))
        await here.until(lambda: len(here.asked) == 2)
        here.asked[1][1].respond(HeartbeatResponse(error_code=0))
        here.asked[0][1].abandon()
        assert [correlation for correlation, _ in await receive(stream)] == [2]


async def test_a_stream_in_single_bytes_is_the_same_stream(world: Begin) -> None:
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
async def test_malformed_bytes_log_one_line_and_close_only_that_connection(
    garbage: bytes, world: Begin
) -> None:
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


async def test_the_log_names_a_client_that_uses_tls(world: Begin) -> None:
    hello, ours = ssl.MemoryBIO(), ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        ours.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    lines = LogCapture()
    structlog.configure(processors=[lines])
    try:
        async with world() as here:
            stream = await here.connect()
            await stream.send_all(hello.read())
            with trio.fail_after(5):
                assert await stream.receive_some() == b""
            [line] = lines.entries
            assert line["event"] == "malformed request"
            assert line["error"].endswith("; the other side seems to speak TLS")
    finally:
        structlog.reset_defaults()


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(world: Begin) -> None:
    async with world() as here:
        stream = await here.connect()
        await stream.send_all(frame(5, api_key=API_VERSIONS, version=127, body=b"\1\1\0"))
        [(correlation_id, body)] = await receive(stream)
        assert correlation_id == 5
        assert ApiVersionsResponse.decode(body, 0).error_code == 35


async def test_a_connection_with_half_a_frame_and_silence_is_closed(world: Begin) -> None:
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


async def test_too_many_requests_in_flight_pause_reading(world: Begin) -> None:
    async with world() as here:
        stream = await here.connect()
        count = 20 * REQUESTS_IN_FLIGHT_MAX
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"".join(map(frame, range(count))))
            await here.until(lambda: len(here.asked) >= REQUESTS_IN_FLIGHT_MAX)
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


async def test_records_are_sent_from_their_file(tmp_path: Path, world: Begin) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)

    async with world() as here:
        here.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 1_000, 2_500_000, None))
        stream = await here.connect()
        await stream.send_all(fetch(9))
        [(correlation_id, answer)] = await receive(stream)
        assert correlation_id == 9
        records = FetchResponse.decode(answer[1:], 12).responses[0].partitions[0].records
        assert records is not None
        assert bytes(cast(bytes, records)) == content[1_000:2_501_000]
    os.close(descriptor)


async def test_a_bug_in_a_handler_closes_only_its_connection(world: Begin) -> None:
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


async def test_a_prepared_answer_is_sent_like_a_message(world: Begin) -> None:
    kept = Prepared(HeartbeatResponse(error_code=7))

    def prepared(message: object, request: Request) -> HeartbeatResponse:
        return cast(HeartbeatResponse, kept)

    async with world() as here:
        here.handlers[HEARTBEAT] = prepared
        stream = await here.connect()
        await stream.send_all(frame(1) + frame(2))
        with trio.fail_after(5):
            answers = await receive(stream, 2)
        assert [body[-3:-1] for _, body in answers] == [b"\0\7", b"\0\7"]
        assert answers[0][1] == answers[1][1], "nothing of the first is in the second"


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
async def test_connections_over_the_limit_are_refused(name: str, world: Begin) -> None:
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
