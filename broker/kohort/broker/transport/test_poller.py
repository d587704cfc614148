"""Every poller against real sockets, kqueue by a stand-in that keeps the manual's rules."""

import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
import trio

from kohort.broker.transport import poller as module
from kohort.broker.transport.poller import READ, WRITE, KqueuePoller, Poller, make_poller
from kohort.broker.transport.test_kqueue import FakeSelect


def fake_kqueue() -> Poller:
    return KqueuePoller(cast(Any, FakeSelect()))


MAKERS: dict[str, Callable[[], Poller]] = {
    "epoll": lambda: make_poller("epoll"),
    "kqueue": lambda: make_poller("kqueue") if hasattr(select, "kqueue") else fake_kqueue(),
    "poll": lambda: make_poller("poll"),
    "select": lambda: make_poller("select"),
}


@pytest.fixture(params=MAKERS)
def poller(request: pytest.FixtureRequest) -> Iterator[Poller]:
    if request.param == "epoll" and not hasattr(select, "epoll"):
        pytest.skip("this system has no epoll")
    made = MAKERS[request.param]()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def ready(poller: Poller) -> dict[int, int]:
    """Return what is ready now, by descriptor: whether reading tells something, whether bytes can be sent."""
    found: dict[int, int] = {}
    for descriptor, event in poller.poll(0, 16):
        found[descriptor] = (
            found.get(descriptor, 0) | (READ if event & ~WRITE else 0) | (WRITE if event & WRITE else 0)
        )
    return found


def test_readable_bytes_are_reported_until_they_are_read(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    assert ready(poller) == {}
    theirs.send(b"x")
    assert ready(poller) == {ours.fileno(): READ}
    assert ready(poller) == {ours.fileno(): READ}
    ours.recv(1)
    assert ready(poller) == {}


def test_writability_is_reported_if_wanted(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    poller.modify(ours.fileno(), READ | WRITE)
    assert ready(poller) == {ours.fileno(): WRITE}
    with suppress(BlockingIOError):
        while ours.send(bytes(65_536)):
            pass
    assert ready(poller) == {}
    while ready(poller) == {}:
        assert theirs.recv(1 << 20)
    assert ready(poller) == {ours.fileno(): WRITE}
    poller.modify(ours.fileno(), READ)
    assert ready(poller) == {}


def test_reading_and_writing_are_both_reported(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ | WRITE)
    theirs.send(b"x")
    assert ready(poller) == {ours.fileno(): READ | WRITE}


def test_a_paused_connection_reports_no_bytes(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    theirs.send(b"x")
    poller.modify(ours.fileno(), 0)
    assert ready(poller) == {}
    poller.modify(ours.fileno(), READ)
    assert ready(poller) == {ours.fileno(): READ}


def test_a_closed_connection_is_reported_as_readable(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    theirs.close()
    assert ready(poller)[ours.fileno()] & READ


def test_an_unregistered_connection_reports_nothing_and_can_register_again(
    poller: Poller, pair: Pair
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ | WRITE)
    theirs.send(b"x")
    poller.unregister(ours.fileno())
    assert ready(poller) == {}
    poller.register(ours.fileno(), READ)
    assert ready(poller) == {ours.fileno(): READ}


def test_the_number_of_events_is_limited(poller: Poller) -> None:
    pairs = [socket.socketpair() for _ in range(5)]
    for ours, theirs in pairs:
        poller.register(ours.fileno(), READ)
        theirs.send(b"x")
    assert len(poller.poll(0, 3)) == 3
    assert len(poller.poll(0, 16)) == 5
    for ours, theirs in pairs:
        poller.unregister(ours.fileno())
        ours.close()
        theirs.close()


def test_the_wait_ends_with_its_time_or_with_the_first_event(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    assert poller.poll(0.001, 16) == []
    theirs.send(b"x")
    assert [descriptor for descriptor, _ in poller.poll(30, 16)] == [ours.fileno()]


async def test_a_task_waits_until_there_are_events(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), READ)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send_later, theirs)
        with trio.fail_after(30):
            while not poller.poll(0, 16):
                await poller.wait(30)
    assert ready(poller) == {ours.fileno(): READ}


async def _send_later(sock: socket.socket) -> None:
    await trio.sleep(0.05)  # While the other one waits.
    sock.send(b"x")


async def test_a_wait_ends_with_its_time(poller: Poller, pair: Pair) -> None:
    poller.register(pair[0].fileno(), READ)
    await poller.wait(0.01)
    assert poller.poll(0, 16) == []


def test_a_poller_is_chosen_by_name_by_variable_or_by_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOHORT_POLLER", raising=False)
    best = "EpollPoller" if hasattr(select, "epoll") else "KqueuePoller"
    assert type(make_poller()).__name__ == best
    assert type(make_poller("poll")).__name__ == "PollPoller"
    monkeypatch.setenv("KOHORT_POLLER", "poll")
    assert type(make_poller()).__name__ == "PollPoller"
    with pytest.raises(OSError, match="this system has no iocp"):
        make_poller("iocp")


def test_the_best_there_is_without_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: `select` has kqueue, and neither epoll nor anything of it."""
    monkeypatch.delenv("KOHORT_POLLER", raising=False)
    monkeypatch.setattr(module, "select", FakeSelect())
    assert type(make_poller()).__name__ == "KqueuePoller"


def test_the_transport_is_imported_where_there_is_no_epoll_and_no_eventfd() -> None:
    """As on macOS: the names are gone before anything of kohort is imported."""
    code = """
import os, select
for module in (os, select):
    for name in [each for each in dir(module) if each.lower().startswith(("epoll", "eventfd", "efd_"))]:
        delattr(module, name)
import kohort.broker.transport.reactor, kohort.broker.runtime.loop, kohort.broker.broker
from kohort.broker.transport.poller import make_poller
assert type(make_poller()).__name__ == "PollPoller"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_system_with_select_alone_has_a_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOHORT_POLLER", raising=False)
    for name in ("epoll", "kqueue", "poll"):
        monkeypatch.delattr(select, name, raising=False)
    assert type(make_poller()).__name__ == "SelectPoller"
