"""A reactor that stops: what was asked is answered first, and nothing more is taken."""

import pytest
import trio
import trio.testing

from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import FETCH, World, fetch, fetched, frame, receive, world
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.heartbeat import HeartbeatResponse

UNTIL_ANSWERED = 60.0  # Seconds: a test that waits for so long has failed.


async def begin(here: World, nursery: trio.Nursery, **limits: float) -> trio.Event:
    """Let the reactor drain, and return what is set when it has."""
    done = trio.Event()

    async def drain() -> None:
        await here.reactor.drain(
            limits.get("answers_seconds_max", UNTIL_ANSWERED),
            limits.get("taking_seconds_max", UNTIL_ANSWERED),
        )
        done.set()

    nursery.start_soon(drain)
    await here.until(lambda: all(each.is_ending for each in here.reactor._connections.values()))
    await trio.testing.wait_all_tasks_blocked(0.01)
    return done


@pytest.mark.parametrize("poller", ["epoll", "kqueue", "poll"])
async def test_earlier_requests_are_answered_and_later_ones_are_not_read(poller: str) -> None:
    async with world(poller=poller) as here, trio.open_nursery() as nursery:
        stream = await here.connect()
        await stream.send_all(frame(1) + frame(2))
        await here.until(lambda: len(here.asked) == 2)
        done = await begin(here, nursery)
        await stream.send_all(frame(3))
        for _, request in reversed(here.asked):
            assert not done.is_set()
            request.respond(HeartbeatResponse(error_code=0))
        assert [correlation for correlation, _ in await receive(stream, 2)] == [1, 2]
        await done.wait()
        assert len(here.asked) == 2


async def test_a_request_that_waits_for_memory_is_not_handled_any_more() -> None:
    async with world() as here, trio.open_nursery() as nursery:
        stream = await here.connect()
        await stream.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)
        here.asked[0][1].connection.mute()
        await stream.send_all(frame(2) + frame(3))
        done = await begin(here, nursery)
        here.asked[0][1].connection.unmute()  # As a quota does, later.
        here.asked[0][1].respond(HeartbeatResponse(error_code=0))
        await done.wait()
        assert len(here.asked) == 1
        assert [correlation for correlation, _ in await receive(stream)] == [1]


async def test_a_stop_does_not_wait_for_a_waiting_fetch() -> None:
    async with world() as here, trio.open_nursery() as nursery:
        asked: list[Request] = []
        here.handlers[FETCH] = lambda message, request: asked.append(request)
        stream = await here.connect()
        await stream.send_all(fetch(1))
        await here.until(lambda: bool(asked))
        await (await begin(here, nursery)).wait()


async def test_a_stop_does_not_wait_forever_for_an_answer() -> None:
    async with world() as here, trio.open_nursery() as nursery:
        stream = await here.connect()
        await stream.send_all(frame(1))
        await here.until(lambda: bool(here.asked))
        await (await begin(here, nursery, answers_seconds_max=0.01)).wait()


async def test_a_stop_does_not_wait_forever_for_a_client_that_does_not_read() -> None:
    async with world() as here, trio.open_nursery() as nursery:

        def answer(message: FetchRequest, request: Request) -> None:
            request.respond(fetched(bytes(50_000_000)))

        here.handlers[FETCH] = answer
        stream = await here.connect()
        await stream.send_all(fetch(1))
        await here.until(lambda: any(each.unsent for each in here.reactor._connections.values()))
        await (await begin(here, nursery, taking_seconds_max=0.01)).wait()


async def test_no_connection_is_accepted_during_a_stop() -> None:
    async with world() as here, trio.open_nursery() as nursery:
        await (await begin(here, nursery)).wait()
        with pytest.raises(OSError, match="all attempts to connect"):
            await here.connect()
