"""Threads of their own: an error in one is logged, even if its result is never read."""

from __future__ import annotations

from threading import Event, Timer

import pytest
import trio
from structlog.testing import capture_logs

from kohort.broker.runtime.workers import LoggedQueue, TrioWorkers


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("unplugged"), AssertionError("impossible")])
async def test_an_error_without_a_receiver_is_logged(error: Exception) -> None:
    def fail() -> None:
        raise error

    async with trio.open_nursery() as nursery:
        queue = LoggedQueue(TrioWorkers(nursery).queue("files"))
        with capture_logs() as logs:
            queue.submit(fail)
            assert queue.submit(int).result() == 0, "and the thread goes on"
            queue.shutdown()
    assert [(each["event"], each["exc_info"]) for each in logs] == [("work in a thread failed", error)]


async def test_a_job_dropped_by_a_stop_is_not_an_error() -> None:
    async with trio.open_nursery() as nursery:
        queue = LoggedQueue(TrioWorkers(nursery).queue("files"))
        with capture_logs() as logs:
            held = Event()
            queue.submit(held.wait)
            dropped = queue.submit(int)
            Timer(0.01, held.set).start()
            queue.shutdown(cancel_futures=True)
    assert dropped.cancelled()
    assert logs == []
