"""Sessions that run in another one's loop: what one of them does to the others."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from kohort.client.errors import ClosedError
from kohort.client.loop_thread import LoopThread


@asynccontextmanager
async def session(
    events: list[str], name: str, *, fails_to_open: bool = False, fails_to_close: bool = False
) -> AsyncIterator[str]:
    if fails_to_open:
        raise ValueError(f"{name} does not open")
    events.append(f"{name} opens")
    try:
        yield name
    finally:
        events.append(f"{name} closes")
    if fails_to_close:
        raise ValueError(f"{name} does not close")


async def nothing() -> int:
    await anyio.sleep(0)
    return 1


def test_guests_are_stopped_before_their_host() -> None:
    events: list[str] = []
    host = LoopThread(session(events, "host"), "host")
    first = LoopThread(session(events, "first"), "first", host=host)
    second = LoopThread(session(events, "second"), "second", host=host)
    assert first.call(nothing) == second.call(nothing) == 1
    first.stop()
    assert second.call(nothing) == 1
    host.stop()
    assert events == [
        *("host opens", "first opens", "second opens"),
        *("first closes", "second closes", "host closes"),
    ]
    for each in (first, second, host):
        with pytest.raises(ClosedError):
            each.call(nothing)
    with pytest.raises(ClosedError):
        LoopThread(session(events, "late"), "late", host=host)


def test_a_guest_that_fails_to_open_or_close_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    events: list[str] = []
    host = LoopThread(session(events, "host"), "host")
    with pytest.raises(ValueError, match="does not open"):
        LoopThread(session(events, "guest", fails_to_open=True), "guest", host=host)
    guest = LoopThread(session(events, "guest", fails_to_close=True), "guest", host=host)
    with caplog.at_level(logging.ERROR, logger="kohort.client"):
        guest.stop()
    assert "the others of its cluster connection go on" in caplog.text
    assert host.call(nothing) == 1
    assert not host._guests
    host.stop()
