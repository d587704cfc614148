"""Who is let in, and what happens when there are no descriptors left."""

import errno
import gc
import os
import resource
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import structlog
import trio
from structlog.testing import LogCapture

from kohort.broker.runtime.descriptors import OTHERS, connections_that_fit, segments_that_fit
from kohort.broker.transport import acceptor
from kohort.broker.transport.acceptor import PAUSE_MS
from kohort.broker.transport.test_support import CONNECTIONS_MAX, World, frame, world
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.storage.open_files import FILES_PER_SEGMENT

PATIENCE_SECONDS = 20  # A busy machine may let a process stand still for seconds.


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    captured = LogCapture()
    structlog.configure(processors=[captured])
    yield captured.entries
    structlog.reset_defaults()


@contextmanager
def no_descriptors_left() -> Iterator[Callable[[], None]]:
    """Take every descriptor that this process may have, within the block; lend a way to do so again.

    What earlier tests have left, to the garbage collector or in a thread, may give one back meanwhile.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    gc.collect()
    gc.disable()
    # The limit is for numbers, not for how many: one that is above it and is closed makes room for nobody.
    highest = max(int(each) for each in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], max(256, highest + 1)), before[1]))

    def take_all() -> None:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    try:
        take_all()
        yield take_all
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        gc.enable()


def sockets(count: int) -> list[socket.socket]:
    made = [socket.socket() for _ in range(count)]
    for each in made:
        each.setblocking(False)
    return made


def connect(here: World, sock: socket.socket) -> None:
    """Connect, and return when the kernel has: the loop, which runs in this thread, knows nothing yet."""
    assert sock.connect_ex(("127.0.0.1", here.port)) in (0, errno.EINPROGRESS)
    established = select.poll()
    established.register(sock, select.POLLOUT)
    assert established.poll(PATIENCE_SECONDS * 1_000)


async def heard_the_end(sock: socket.socket) -> bool:
    await trio.lowlevel.wait_readable(sock)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


async def all_hear_the_end(here: World, late: list[socket.socket]) -> None:
    """Return when each was refused; who comes late is, once the listener has rested."""
    with trio.fail_after(PATIENCE_SECONDS):
        for each in late:
            while True:
                with trio.move_on_after(0.5):
                    assert await heard_the_end(each)
                    break
                here.advance(PAUSE_MS)


@pytest.mark.interpreted
async def test_without_descriptors_clients_are_refused_at_once_and_the_loop_pauses(
    lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as here:
        old = await here.connect()
        await old.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)
        late = sockets(3)
        rounds: list[int] = []
        real = here.reactor._round

        def counted(events: list[tuple[int, int]]) -> None:
            rounds.append(1)
            real(events)

        monkeypatch.setattr(here.reactor, "_round", counted)
        with no_descriptors_left():
            for each in late:
                connect(here, each)
            await all_hear_the_end(here, late)
            assert here.counters.connections_refused == 3
            before = len(rounds)
            await trio.sleep(0.2)
            assert len(rounds) - before < 20
            here.asked.pop()[1].respond(HeartbeatResponse(error_code=0))
            with trio.fail_after(PATIENCE_SECONDS):
                assert await old.receive_some()
        here.advance(PAUSE_MS)
        new = await here.connect()
        await new.send_all(frame(2))
        await here.until(lambda: len(here.asked) == 1)
        assert {line["event"] for line in lines} == {"connections are refused: out of descriptors"}
        assert len(lines) <= len(late)
        for each in late:
            each.close()


async def test_without_a_spare_descriptor_the_loop_pauses_and_clients_are_served_later(
    lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_spare_descriptor", lambda: None)
    async with world() as here:
        [late] = sockets(1)
        with no_descriptors_left():
            connect(here, late)
            await here.until(lambda: bool(lines))
            await trio.sleep(0.05)
            assert len(lines) == 1
        here.advance(PAUSE_MS)
        await here.until(lambda: here.reactor.connections == 1)
        late.close()


async def test_a_client_of_a_listener_for_both_kinds_of_addresses_has_its_own() -> None:
    """Else entries and quotas that name 10.0.0.1 would not be about ::ffff:10.0.0.1, who is the same."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    async with world() as here:
        listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        listener.setblocking(False)
        here.reactor.listen(listener)
        stream = await trio.open_tcp_stream("127.0.0.1", listener.getsockname()[1])
        await stream.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)
        assert here.asked[0][1].client_host == "/127.0.0.1"
        await stream.aclose()


async def test_lines_about_it_are_few(lines: list[Any]) -> None:
    async with world() as here:
        late = sockets(40)
        with no_descriptors_left() as take_all:
            for count, each in enumerate(late, start=1):
                take_all()
                connect(here, each)
                await here.until(lambda count=count: here.counters.connections_refused == count)  # type: ignore[misc]
                here.clock.advance(10)
                here.mailbox.wake()
                here.advance(PAUSE_MS)
        assert here.counters.connections_refused == 40
        assert len(lines) <= 5 * (1 + 40 * (PAUSE_MS + 10) // 1_000)
        for each in late:
            each.close()


async def test_connections_leave_the_logs_their_share() -> None:
    """`max.connections` is two thousand million by default: the share of descriptors counts then."""
    assert (
        connections_that_fit() + OTHERS + segments_that_fit() * FILES_PER_SEGMENT
        <= resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    )
    async with world(connections_max=2) as here:
        streams = [await here.connect() for _ in range(3)]
        with trio.fail_after(5):
            assert await streams[2].receive_some() == b""
        assert here.counters.connections_refused == 1
        assert CONNECTIONS_MAX > 2


async def test_a_client_that_disconnects_before_accept_is_harmless(
    monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    calls: list[int] = []
    real = acceptor._prepare

    def prepare(sock: socket.socket, current: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(22, "Invalid argument")
        real(sock, current)

    monkeypatch.setattr(acceptor, "_prepare", prepare)
    async with world() as here:
        first = await here.connect()
        with trio.fail_after(5):
            assert await first.receive_some() == b""
        second = await here.connect()
        await second.send_all(frame(1))
        await here.until(lambda: len(here.asked) == 1)
        assert here.counters.connections_accepted == 1
