"""Clients that take more than their share, and one beside them who does not notice."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from kohort.broker.runtime.clock import SystemClock
from kohort.broker.transport import connection as connections
from kohort.broker.transport import file_range
from kohort.broker.transport.connection import SEND_BYTES_PER_TURN
from kohort.broker.transport.file_range import STRETCH_BYTES, FileRange
from kohort.broker.transport.in_flight import HELD_BYTES_MAX, SHARE_BYTES_MIN
from kohort.broker.transport.peer import LENGTHY_IN_FLIGHT_MAX, SLOW_GRACE_MS
from kohort.broker.transport.plain import PlainTransport
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import (
    FETCH,
    HEARTBEAT,
    HEARTBEAT_VERSION,
    LIST_GROUPS,
    World,
    fetch,
    fetched,
    frame,
    list_groups,
    listed,
    receive,
    world,
)
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

ANSWER_BYTES = 2_000_000
Handler = Callable[[Any, Request], FetchResponse]


async def asks(here: World, stream: trio.SocketStream, correlation_id: int) -> None:
    """Ask something small and get the answer."""
    await stream.send_all(frame(correlation_id))
    await here.until(lambda: bool(here.asked))
    here.asked.pop()[1].respond(HeartbeatResponse(error_code=0))
    assert [each for each, _ in await receive(stream)] == [correlation_id]


def answering(asked: list[Request], size_bytes: int = ANSWER_BYTES) -> Handler:
    """Return a handler whose answers are large."""

    def handle(message: object, request: Request) -> FetchResponse:
        asked.append(request)
        return fetched(bytes(size_bytes))

    return handle


async def test_pipelined_requests_with_large_answers_stay_within_one_share(tmp_path: Path) -> None:
    """1,000 of them in 30 KB, and nobody reads the answers: 2 GB if all were answered at once."""
    async with world() as here:
        asked: list[Request] = []
        here.handlers[FETCH] = answering(asked)
        greedy, good = await here.connect(), await here.connect()
        await greedy.send_all(b"".join(map(fetch, range(1_000))))
        await here.until(lambda: len(asked) >= 8)
        await asks(here, good, 1)
        most = HELD_BYTES_MAX + ANSWER_BYTES + 100_000
        assert here.reactor.in_flight.held_bytes < most
        socket_bytes = 8_000_000  # What the kernel takes of the answers.
        assert len(asked) < (most + socket_bytes) / ANSWER_BYTES
        total = 0
        with trio.fail_after(20):
            while len(asked) < 60:
                total += len(await greedy.receive_some())
                assert here.reactor.in_flight.held_bytes < most
        assert total > 30 * ANSWER_BYTES


async def test_many_clients_that_do_not_read_stay_within_the_limit_and_small_ones_are_served() -> None:
    limit = 8_000_000
    small_buffers = ("socket.send.buffer.bytes", "65536")  # The kernel takes megabytes otherwise.
    async with world(("queued.max.request.bytes", str(limit)), small_buffers) as here:
        asked: list[Request] = []
        here.handlers[FETCH] = answering(asked)
        good = await here.connect()
        greedy = [await here.connect() for _ in range(25)]
        for stream in greedy:
            await stream.send_all(b"".join(map(fetch, range(30))))
        await here.until(lambda: here.reactor.in_flight.allowance.is_full)
        for number in range(5):
            await asks(here, good, number)
        assert here.reactor.in_flight.allowance.is_full
        assert here.reactor.in_flight.held_bytes < limit * 5 // 4 + 3 * ANSWER_BYTES
        here.advance(1_000)  # Who takes nothing while all room is taken makes way for the next.
        await here.until(lambda: here.counters.stalled_connections > 0)
        assert here.reactor.in_flight.held_bytes < limit * 5 // 4 + 3 * ANSWER_BYTES
        await asks(here, good, 9)
        for stream in greedy:
            await stream.aclose()
        await here.until(lambda: here.reactor.connections == 1)
        assert here.reactor.in_flight.held_bytes < SHARE_BYTES_MIN


async def test_a_slow_reader_keeps_its_connection_while_larger_ones_are_closed() -> None:
    """Its garbage is collected, or its disk is slow: for a second it takes nothing of one usual answer."""
    small_buffers = ("socket.send.buffer.bytes", "65536")
    async with world(("queued.max.request.bytes", "8000000"), small_buffers) as here:
        asked: list[Request] = []
        here.handlers[FETCH] = answering(asked, ANSWER_BYTES // 2)
        slow = await here.connect()
        await slow.send_all(fetch(7))
        await here.until(lambda: len(asked) == 1)
        here.handlers[FETCH] = answering(asked)
        greedy = [await here.connect() for _ in range(25)]
        for stream in greedy:
            await stream.send_all(b"".join(map(fetch, range(30))))
        await here.until(lambda: here.reactor.in_flight.allowance.is_full)
        here.advance(1_000)
        await here.until(lambda: here.counters.stalled_connections > 0)
        assert [each for each, _ in await receive(slow)] == [7]


async def test_answers_completed_together_stay_within_the_limit() -> None:
    """A flush ends, and a thousand questions that waited for it are answered: 1 GB if all were encoded."""
    limit = 8_000_000
    small_buffers = ("socket.send.buffer.bytes", "65536")
    async with world(("queued.max.request.bytes", str(limit)), small_buffers) as here:
        asked: list[Request] = []
        here.handlers[LIST_GROUPS] = lambda _, request: asked.append(request)
        greedy = [await here.connect() for _ in range(50)]
        good = await here.connect()
        for stream in greedy:
            await stream.send_all(b"".join(map(list_groups, range(20))))
        await here.until(lambda: len(asked) == 50 * LENGTHY_IN_FLIGHT_MAX)
        await good.send_all(list_groups(7))
        await here.until(lambda: len(asked) == 50 * LENGTHY_IN_FLIGHT_MAX + 1)
        for request in asked:
            request.respond(listed(1_000_000))
        most = limit * 5 // 4 + 2_000_000
        await here.until(lambda: here.reactor.in_flight.allowance.is_full)
        assert here.reactor.in_flight.held_bytes < most
        await asks(here, await here.connect(), 1)
        here.advance(1_000)  # Who takes nothing makes way, and the one who reads gets its answer.
        received = await receive(good)
        assert [each for each, _ in received] == [7]
        assert len(received[0][1]) > 1_000_000
        assert here.reactor.in_flight.held_bytes < most


async def test_all_waiters_of_one_flush_are_answered_in_the_end() -> None:
    async with world(("queued.max.request.bytes", "3000000")) as here:
        asked: list[Request] = []
        here.handlers[LIST_GROUPS] = lambda _, request: asked.append(request)
        streams = [await here.connect() for _ in range(10)]
        for stream in streams:
            await stream.send_all(b"".join(map(list_groups, range(20))))

        async def read(stream: trio.SocketStream) -> None:
            assert [each for each, _ in await receive(stream, 20)] == list(range(20))

        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(read, stream)
            answered = 0
            while answered < 200:
                await here.until(lambda: bool(asked))
                flushed, asked[:] = list(asked), []
                for request in flushed:
                    request.respond(listed(700_000))
                answered += len(flushed)
        await here.until(lambda: here.reactor.in_flight.held_bytes == 0)


async def test_a_delayed_answer_that_cannot_be_encoded_closes_only_its_connection() -> None:
    small_buffers = ("socket.send.buffer.bytes", "65536")
    async with world(("queued.max.request.bytes", "1000000"), small_buffers) as here:
        asked: list[Request] = []
        here.handlers[LIST_GROUPS] = lambda _, request: asked.append(request)
        greedy, bad, good = [await here.connect() for _ in range(3)]
        await greedy.send_all(list_groups(1))
        await here.until(lambda: len(asked) == 1)
        await bad.send_all(list_groups(1))
        await here.until(lambda: len(asked) == 2)
        await good.send_all(list_groups(1))
        await here.until(lambda: len(asked) == 3)
        asked[0].respond(listed(8_000_000))
        asked[1].respond(HeartbeatResponse(error_code="no number"))  # type: ignore[arg-type]
        asked[2].respond(listed(1_000))
        assert await bad.receive_some() == b""
        await greedy.aclose()
        assert [each for each, _ in await receive(good)] == [1]


async def test_every_delayed_client_is_served_in_the_end() -> None:
    async with world(("queued.max.request.bytes", "3000000")) as here:
        here.handlers[FETCH] = answering([], 700_000)

        async def ask_and_read(stream: trio.SocketStream) -> None:
            await stream.send_all(b"".join(map(fetch, range(20))))
            answers = await receive(stream, 20)
            assert [each for each, _ in answers] == list(range(20))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(ask_and_read, await here.connect())
        await here.until(lambda: here.reactor.in_flight.held_bytes == 0)


async def test_large_frames_that_would_fill_memory_arrive_one_by_one() -> None:
    """Ten frames that have arrived by half would leave room for none of them to be completed."""
    async with world(("queued.max.request.bytes", "1000000")) as here:
        body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(HEARTBEAT_VERSION)
        frames = [frame(number, body=body + b"\0" * 500_000) for number in range(10)]
        good = await here.connect()

        async def send_by_halves(data: bytes) -> None:
            stream = await here.connect()
            await stream.send_all(data[: len(data) // 2])
            await here.until(lambda: bool(here.reactor.in_flight.waiting) or len(arrived) > 0)
            await stream.send_all(data[len(data) // 2 :])
            [(correlation_id, _)] = await receive(stream)
            arrived.append(correlation_id)

        arrived: list[int] = []
        here.handlers[HEARTBEAT] = lambda message, request: HeartbeatResponse(error_code=0)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for data in frames:
                    nursery.start_soon(send_by_halves, data)
                await here.until(lambda: bool(here.reactor.in_flight.waiting))
                await good.send_all(frame(99))
                assert [each for each, _ in await receive(good)] == [99]
        assert sorted(arrived) == list(range(10))
        assert not here.reactor.in_flight.waiting


async def test_a_long_turn_lets_other_connections_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that takes 5 ms, asked 200 times at once: the client beside waits for a few of them."""
    async with world() as here:
        here.reactor._clock = SystemClock()
        asked: list[Request] = []
        slow = answering(asked, 10)

        def handle(message: object, request: Request) -> FetchResponse:
            time.sleep(0.005)
            return slow(message, request)

        here.handlers[FETCH] = handle
        busy, good = await here.connect(), await here.connect()
        await asks(here, good, 1)
        await busy.send_all(b"".join(map(fetch, range(200))))
        await here.until(lambda: len(asked) >= 1)
        before = len(asked)
        await asks(here, good, 2)
        assert len(asked) - before < 100
        answers = await receive(busy, 200)
        assert [each for each, _ in answers] == list(range(200))


async def test_a_connection_that_sends_a_frame_byte_by_byte_is_closed() -> None:
    async with world() as here:
        slow, good = await here.connect(), await here.connect()
        data = frame(1)
        await slow.send_all(data[:5])
        await here.until(lambda: here.reactor.connections == 2)
        sent = 5
        with trio.fail_after(10):
            for _ in range(SLOW_GRACE_MS // 4_000 + 3):
                here.advance(4_000)
                await asks(here, good, 1)
                if here.reactor.connections == 1:
                    break
                await slow.send_all(data[sent : sent + 1])
                sent += 1
                await trio.sleep(0.01)
            assert await slow.receive_some() == b""
        assert here.counters.stalled_connections == 1


@pytest.fixture
def descriptor(tmp_path: Path) -> Any:
    (tmp_path / "log").write_bytes(os.urandom(3 * STRETCH_BYTES))
    opened = os.open(tmp_path / "log", os.O_RDONLY)
    yield opened
    os.close(opened)


async def test_records_that_are_not_in_memory_are_read_by_a_thread(
    monkeypatch: pytest.MonkeyPatch, descriptor: int
) -> None:
    """While the disk takes its time the client beside is answered."""
    released = trio.Event()
    warmed: list[int] = []
    monkeypatch.setattr(file_range, "_is_cached", lambda *_: False)

    def warm(self: FileRange) -> None:
        trio.from_thread.run(released.wait)
        warmed.append(self.position)
        self.warm_until = self.position + self.stretch_bytes

    monkeypatch.setattr(FileRange, "warm", warm)
    monkeypatch.setattr(file_range, "_NOWAIT", 8)
    async with world() as here:
        size = 2 * STRETCH_BYTES + 5
        here.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 0, size, None))
        cold, good = await here.connect(), await here.connect()
        await cold.send_all(fetch(1))
        await here.until(lambda: bool(here.reactor.connections == 2))
        for number in range(3):
            await asks(here, good, number)
        assert warmed == []
        released.set()
        [(_, answer)] = await receive(cold)
        records = FetchResponse.decode(answer[1:], 12).responses[0].partitions[0].records
        assert records is not None
        assert bytes(cast(bytes, records)) == os.pread(descriptor, size, 0)
        assert warmed == [0, STRETCH_BYTES, 2 * STRETCH_BYTES]


async def test_a_disk_error_during_a_read_closes_only_the_reader(
    monkeypatch: pytest.MonkeyPatch, descriptor: int
) -> None:
    monkeypatch.setattr(file_range, "_is_cached", lambda *_: False)
    monkeypatch.setattr(file_range, "_NOWAIT", 8)

    def warm(self: FileRange) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FileRange, "warm", warm)
    async with world() as here:
        here.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 0, STRETCH_BYTES, None))
        cold, good = await here.connect(), await here.connect()
        await cold.send_all(fetch(1))
        with trio.fail_after(5):
            data = b""
            while more := await cold.receive_some():
                data += more
        assert len(data) < STRETCH_BYTES
        await asks(here, good, 1)


async def test_a_connection_that_closes_while_its_records_are_read_is_removed(
    monkeypatch: pytest.MonkeyPatch, descriptor: int
) -> None:
    released = trio.Event()
    monkeypatch.setattr(file_range, "_is_cached", lambda *_: False)
    monkeypatch.setattr(file_range, "_NOWAIT", 8)
    monkeypatch.setattr(FileRange, "warm", lambda self: trio.from_thread.run(released.wait))
    async with world() as here:
        here.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 0, STRETCH_BYTES, None))
        cold = await here.connect()
        await cold.send_all(fetch(1))
        await here.until(lambda: here.reactor.in_flight.held_bytes > 0)
        await cold.aclose()
        await here.until(lambda: here.reactor.connections == 0)
        released.set()
        await asks(here, await here.connect(), 1)


@pytest.mark.interpreted
async def test_the_bytes_sent_in_one_turn_are_bounded(
    monkeypatch: pytest.MonkeyPatch, descriptor: int
) -> None:
    """However fast its reader is, a connection sends a part and lets the others have their turn."""
    monkeypatch.setattr(connections, "SEND_BYTES_PER_TURN", 100_000)
    sent: list[int] = []
    real = PlainTransport.send_range

    def send_range(self: PlainTransport, piece: FileRange) -> int:
        piece.size_bytes, rest = min(piece.size_bytes, 30_000), max(0, piece.size_bytes - 30_000)
        try:
            count = real(self, piece)
        finally:
            piece.size_bytes += rest
        sent.append(count)
        return count

    monkeypatch.setattr(PlainTransport, "send_range", send_range)
    async with world() as here:
        turns: list[int] = []
        on_writable = connections.Connection.on_writable

        def counted(self: connections.Connection) -> None:
            before = sum(sent)
            on_writable(self)
            turns.append(sum(sent) - before)

        monkeypatch.setattr(connections.Connection, "on_writable", counted)
        here.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 0, 2_000_000, None))
        stream = await here.connect()
        await stream.send_all(fetch(1))
        await receive(stream)
    assert max(turns) <= 100_000 + 30_000
    assert SEND_BYTES_PER_TURN >= 4 * STRETCH_BYTES


async def test_delayed_clients_use_none_of_the_shared_memory() -> None:
    large = HeartbeatRequest(group_id="g" * 30_000, generation_id=1, member_id="m").encode(HEARTBEAT_VERSION)
    async with world() as here:
        quick, good = await here.connect(), await here.connect()
        await quick.send_all(frame(1))
        await here.until(lambda: bool(here.asked))
        _, first = here.asked.pop()
        first.connection.mute()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(quick.send_all, b"".join(frame(each, body=large) for each in range(2, 602)))
            for number in range(20):
                await asks(here, good, number)
            first.respond(HeartbeatResponse(error_code=0))
            assert [each for each, _ in await receive(quick)] == [1]  # What it is owed it is told.
            await here.until(lambda: len(here.asked) == 1)  # One is asked, and whoever muted it holds it.
            assert here.reactor.in_flight.held_bytes < 1_000_000
            first.connection.unmute()
            for number in range(2, 602):
                await here.until(lambda: bool(here.asked))
                here.asked.pop(0)[1].respond(HeartbeatResponse(error_code=0))
                assert [each for each, _ in await receive(quick)] == [number]
