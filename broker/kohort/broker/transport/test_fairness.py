"""Who asks for much waits for itself: rounds stay short, everybody has a turn, and nobody is forgotten."""

import socket
from collections import Counter
from collections.abc import Callable

from kohort.broker.transport.reactor import ROUND_MS_MAX
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import HEARTBEAT_VERSION, World, fetch, frame, receive, world
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

COST_MS = 3


def heavy(number: int) -> bytes:
    body = HeartbeatRequest(group_id="heavy", generation_id=1, member_id="m").encode(HEARTBEAT_VERSION)
    return frame(number, body=body)


def work(
    here: World, rounds: Counter[int], asked: list[str], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Have each heavy request cost its time, and note in which round it was handled.

    `meanwhile` is done once, while the tenth request is handled.
    """

    def handle(message: HeartbeatRequest, request: Request) -> HeartbeatResponse:
        asked.append(message.group_id)
        if len(asked) == 10:
            meanwhile()
        if message.group_id == "heavy":
            rounds[here.reactor.now_ms] += 1
            here.clock.advance(COST_MS)
        return HeartbeatResponse(error_code=0)

    here.handlers[12] = handle


async def test_a_busy_client_does_not_lengthen_rounds() -> None:
    rounds: Counter[int] = Counter()
    async with world() as here:
        work(here, rounds, [])
        stream = await here.connect()
        await stream.send_all(b"".join(map(heavy, range(100))))
        await receive(stream, 100)
    assert max(rounds.values()) * COST_MS <= ROUND_MS_MAX + 2 * COST_MS


async def test_a_new_client_is_served_among_busy_ones() -> None:
    asked: list[str] = []
    async with world() as here:
        with socket.create_connection(("127.0.0.1", here.port)) as newcomer:
            work(here, Counter(), asked, lambda: newcomer.sendall(frame(1)))
            crowd = [await here.connect() for _ in range(3)]
            for stream in crowd:
                await stream.send_all(b"".join(map(heavy, range(200))))
            for stream in crowd:
                await receive(stream, 200)
            await here.until(lambda: "g" in asked)
    assert asked.index("g") < 100, "of 600 that the crowd has asked"


async def test_a_paused_connection_resumes_although_memory_was_scarce() -> None:
    async with world(("queued.max.request.bytes", str(64 << 20))) as here:
        waiting: list[Request] = []
        here.handlers[1] = lambda message, request: waiting.append(request)
        stream = await here.connect()
        await stream.send_all(b"".join(map(fetch, range(520))))
        await here.until(lambda: len(waiting) == 512)
        in_flight = here.reactor.in_flight
        in_flight.note(0, 100 << 20)  # Others take all the room ...
        for request in list(waiting):
            request.respond(FetchResponse(responses=()))
        here.mailbox.wake()
        await receive(stream, 512)
        in_flight.note(100 << 20, 0)  # ... and leave it again.
        here.advance(1_000)
        await here.until(lambda: len(waiting) == 520)
