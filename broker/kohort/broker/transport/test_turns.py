"""Tasks beside the loop: its rounds end where one of them can go on, and wait for the next where none can."""

import socket
import time
from collections.abc import Callable

import pytest
import trio

from kohort.broker.transport import reactor
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_support import World, frame, world
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

LINGER_SECONDS, ENDLESS_SECONDS = 1.0, 60.0
POLLERS = ["epoll", "kqueue", "poll", "select"]


@pytest.fixture(autouse=True)
def lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a round wait so long for the next that nobody overlooks it."""
    monkeypatch.setattr(reactor, "LINGER_SECONDS", LINGER_SECONDS)


@pytest.fixture
def endless(lingering: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a round wait for the next longer than any machine takes for what ends it."""
    monkeypatch.setattr(reactor, "LINGER_SECONDS", ENDLESS_SECONDS)


async def seconds_until_it_goes_on(here: World, wake: Callable[[trio.Event], None]) -> float:
    """Return how long a task waits that `wake` lets go on in the middle of a round."""
    event, began = trio.Event(), float("nan")

    def handle(message: HeartbeatRequest, request: Request) -> HeartbeatResponse:
        nonlocal began
        began = time.monotonic()
        wake(event)
        return HeartbeatResponse(error_code=0)

    here.handlers[12] = handle
    with socket.create_connection(("127.0.0.1", here.port)) as client:
        client.sendall(frame(1))
        await event.wait()
        waited = time.monotonic() - began
        reactor.LINGER_SECONDS = 0.0  # Later rounds need not wait; `lingering` takes this back.
    return waited


async def receive_into(event: trio.Event, sock: socket.socket) -> None:
    await trio.lowlevel.wait_readable(sock)
    event.set()


@pytest.mark.parametrize("poller", POLLERS)
async def test_bytes_for_a_waiting_task_end_the_rounds(poller: str, endless: None) -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        async with world(poller=poller) as here, trio.open_nursery() as nursery:
            here.reactor.watch_descriptor(receiver.fileno())

            def wake(event: trio.Event) -> None:
                nursery.start_soon(receive_into, event, receiver)
                sender.send(b"x")

            assert await seconds_until_it_goes_on(here, wake) < ENDLESS_SECONDS
            here.reactor.unwatch_descriptor(receiver.fileno())


async def test_a_task_that_was_woken_ends_the_rounds(endless: None) -> None:
    async with world() as here:

        def wake(event: trio.Event) -> None:
            event.set()
            here.reactor.let_tasks_run()

        assert await seconds_until_it_goes_on(here, wake) < ENDLESS_SECONDS


async def test_without_a_reason_a_round_waits_for_the_next() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        async with world() as here:
            here.reactor.watch_descriptor(receiver.fileno())
            here.reactor.unwatch_descriptor(receiver.fileno())
            sender.send(b"x")
            assert await seconds_until_it_goes_on(here, trio.Event.set) > LINGER_SECONDS / 2


@pytest.mark.parametrize("syncs", [False, True])
@pytest.mark.parametrize("poller", POLLERS)
async def test_connections_that_arrive_before_a_sync_share_it(poller: str, syncs: bool) -> None:
    async with world(poller=poller) as here:
        early = reactor.EVENTS_WITH_OTHERS
        clients = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(early + 1)]
        await here.until(lambda: here.reactor.connections == len(clients))
        asked: list[int] = []
        written: list[tuple[int, ...]] = []

        def handle(message: HeartbeatRequest, request: Request) -> HeartbeatResponse:
            asked.append(message.generation_id)
            if len(asked) == 1:
                clients[-1].sendall(frame(3))
            return HeartbeatResponse(error_code=0)

        def end_round() -> None:
            if asked and (not written or written[-1] != tuple(asked)):
                written.append(tuple(asked))

        here.handlers[12] = handle
        here.reactor._end_round, here.reactor._is_to_sync = end_round, lambda: syncs
        for client in clients[:-1]:
            client.sendall(frame(1))
        await here.until(lambda: bool(written) and len(written[-1]) == len(clients))
        assert [len(each) for each in written] == ([early + 1] if syncs else [early, early + 1])
        for client in clients:
            client.close()
