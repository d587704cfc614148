"""A supervisor whose workers are played by hand: nothing here waits."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from structlog.testing import capture_logs

from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.supervisor import (
    RESTART_MS_MAX,
    RESTART_MS_MIN,
    STEADY_MS,
    Part,
    Supervisor,
    restart_delay_ms,
)


class World:
    """Workers whose sleeping advances the clock, and a task that fails as often as ordered."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.supervisor = Supervisor(cast(Any, self), self.clock)
        self.slept_ms: list[int] = []
        self.seen: list[list[str]] = []  # The reasons as of each sleep and each run.
        self.tasks: list[Awaitable[object]] = []
        self.failures_to_come: list[tuple[int, BaseException]] = []  # After how long, and what.
        self.runs = 0

    def spawn(self, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        self.tasks.append(function(*arguments))

    async def sleep(self, seconds: float) -> None:
        self.slept_ms.append(int(seconds * 1_000))
        self.seen.append(self.supervisor.reasons())
        self.clock.advance(int(seconds * 1_000))

    async def run(self, part: Part) -> None:
        self.runs += 1
        if self.failures_to_come:
            after_ms, error = self.failures_to_come.pop(0)
            self.clock.advance(after_ms)
            raise error


async def test_a_failed_task_is_restarted_and_logged() -> None:
    world = World()
    world.failures_to_come = [(0, ValueError("a bug"))]
    with capture_logs() as lines:
        part = world.supervisor.start("log cleaner", world.run)
        await world.tasks[0]
    assert (world.runs, part.restarts, world.slept_ms) == (2, 1, [RESTART_MS_MIN])
    assert world.seen == [["log cleaner: failed, and is started again: ValueError: a bug"]]
    [line] = lines
    assert (line["event"], line["part"], line["restart_in_ms"]) == (
        "a background task failed",
        "log cleaner",
        RESTART_MS_MIN,
    )
    assert line["exc_info"]


async def test_each_failure_in_a_row_doubles_the_delay_up_to_a_minute() -> None:
    world = World()
    world.failures_to_come = [(0, ValueError("a bug"))] * 9
    world.supervisor.start("retention", world.run)
    await world.tasks[0]
    assert world.slept_ms == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


async def test_a_task_that_ran_for_a_while_restarts_with_the_short_delay() -> None:
    world = World()
    bug = ValueError("a bug")
    world.failures_to_come = [(0, bug), (0, bug), (STEADY_MS, bug)]
    world.supervisor.start("retention", world.run)
    await world.tasks[0]
    assert world.slept_ms == [1_000, 2_000, 1_000]


async def test_the_broker_is_ready_again_after_the_task_ran_for_a_while() -> None:
    world = World()
    world.failures_to_come = [(0, OSError("no such folder"))]
    world.supervisor.start("checkpoint", world.run)
    await world.tasks[0]
    assert world.supervisor.reasons() == ["checkpoint: failed, and is started again: OSError: no such folder"]
    world.clock.advance(STEADY_MS)
    assert world.supervisor.reasons() == []


async def test_cancellation_is_no_failure() -> None:
    world = World()
    begun = trio.Event()

    async def forever(_part: Part) -> None:
        begun.set()
        await trio.sleep_forever()

    part = world.supervisor.start("lag", forever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: cast(Any, world.tasks[0]))
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert part.restarts == 0


async def test_a_failure_in_a_nursery_of_the_task_is_a_failure_of_the_task() -> None:
    world = World()
    runs: list[int] = []

    async def run(part: Part) -> None:
        runs.append(1)
        if len(runs) == 1:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.run, part)

    world.failures_to_come = [(0, KeyError("a"))]
    part = world.supervisor.start("group events", run)
    await world.tasks[0]
    assert (len(runs), part.restarts) == (2, 1)


def test_a_part_without_a_sign_of_life_in_time_is_named() -> None:
    world = World()
    loop = world.supervisor.part("event loop")
    loop.beat(again_within_ms=10_000)
    world.clock.advance(10_000)
    assert world.supervisor.reasons() == []
    world.clock.advance(3_000)
    assert world.supervisor.reasons() == ["event loop: no sign of life for 3 s longer than allowed"]
    loop.beat(again_within_ms=10_000)
    assert world.supervisor.reasons() == []


def test_a_part_that_rests_between_its_rounds_needs_no_sign_of_life() -> None:
    world = World()
    cleaner = world.supervisor.part("log cleaner")
    with cleaner.working(at_most_ms=60_000):
        world.clock.advance(61_000)
        assert world.supervisor.reasons() == ["log cleaner: no sign of life for 1 s longer than allowed"]
    world.clock.advance(600_000)
    assert world.supervisor.reasons() == []


@pytest.mark.parametrize("failures", [1, 7, 10_000])
def test_delays_stay_within_their_bounds(failures: int) -> None:
    assert RESTART_MS_MIN <= restart_delay_ms(failures) <= RESTART_MS_MAX
