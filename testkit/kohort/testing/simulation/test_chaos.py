"""Faults end by themselves, and nothing but themselves."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kohort.testing.simulation import World
from kohort.testing.simulation.chaos import Chaos
from kohort.testing.simulation.endings import Endings
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.running import run_seed

Fault = Callable[[], Any]


class Always:
    """Stands for the random choices of a fault: always the first one, always these seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def choice(self, choices: Any) -> Any:
        """Return the first one."""
        return choices[0]

    def uniform(self, _low: float, _high: float) -> float:
        """Return the seconds."""
        return self._seconds

    def randrange(self, _end: int) -> int:
        """Return 0."""
        return 0

    def random(self) -> float:
        """Return 0."""
        return 0.0


def passes(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    world, error = run_seed(test, 1)
    assert error is None, world.story_told


def inject(chaos: Chaos, fault: str, seconds: float) -> str | None:
    words: str | None = getattr(chaos, fault)(Always(seconds))
    return words


async def sleep_forever() -> None:
    await asyncio.Event().wait()


def test_a_program_that_runs_is_not_started() -> None:
    async def test(world: World) -> None:
        app = world.process("app", sleep_forever)
        with pytest.raises(RuntimeError, match="app runs already"):
            app.start()
        app.kill()
        app.start()
        assert app.lives == 2

    passes(test)


@pytest.mark.parametrize("fault", ["_kill_one", "_terminate_one"])
def test_a_victim_that_somebody_else_has_started_is_let_go(fault: str) -> None:
    async def test(world: World) -> None:
        app = world.process("app", sleep_forever)
        async with world.chaos(kill=[app], every_seconds=1e6) as chaos:
            inject(chaos, fault, 5)
            await asyncio.sleep(1)
            app.start()
            await asyncio.sleep(10)
            assert app.lives == 2
            assert inject(chaos, "_kill_one", 5) is not None  # It can be ended again.
            await asyncio.sleep(10)
            assert app.lives == 3

    passes(test)


def test_a_broker_that_was_to_die_and_was_started_by_somebody_else_is_let_go() -> None:
    async def test(world: World) -> None:
        broker = await world.broker()
        async with world.chaos(fail_disks=[broker], every_seconds=1e6) as chaos:
            assert inject(chaos, "_die_inside", 20) is not None
            broker.kill()
            broker.start()
            await world.until(lambda: broker.is_serving)
            broker.die_at_operation(10_000, without_power=False)  # By somebody else: it stays.
            await asyncio.sleep(30)
            assert broker.disk.file_system.interrupt is not None
            assert inject(chaos, "_die_inside", 5) is not None

    passes(test)


def test_each_fault_of_a_disk_ends_alone() -> None:
    async def test(world: World) -> None:
        broker = await world.broker()
        disk = broker.disk
        async with world.chaos(fail_disks=[broker], every_seconds=1e6) as chaos:
            inject(chaos, "_slow_disk", 10)
            disk.fill(1_000_000)  # By somebody else.
            disk.fail_sync(1_000)
            await asyncio.sleep(11)
            assert disk.latency_ms == 1
            assert disk.file_system.room_bytes is not None
            assert disk.file_system.syncs_until_failure is not None
            inject(chaos, "_slow_disk", 10)
            await asyncio.sleep(6)
            inject(chaos, "_slow_disk", 10)  # It takes the place of the one before, which does not end it.
            await asyncio.sleep(6)
            assert disk.latency_ms > 1
            assert disk.file_system.room_bytes is not None
        assert disk.latency_ms == 1

    passes(test)


def test_a_disk_keeps_its_faults_over_a_restart() -> None:
    async def test(world: World) -> None:
        broker = await world.broker()
        broker.kill()
        broker.disk.fail_sync(500, times=3)
        broker.start()
        assert broker.disk.file_system.syncs_until_failure == 500
        assert broker.disk.file_system.failures_behind_it == 2

    passes(test)


def test_a_host_is_cut_off_as_long_as_one_fault_lasts() -> None:
    async def test(world: World) -> None:
        a, b, c = (world.process(name, sleep_forever) for name in "abc")
        network = world.network
        network.cut(a.host, c.host)  # By somebody else.
        async with world.chaos(kill=[a], cut_network=True, every_seconds=1e6) as chaos:
            inject(chaos, "_cut_off", 10)
            network.cut_off(b.host)
            await asyncio.sleep(100)
            assert network.link(a.host, b.host).is_cut
            assert network.link(a.host, c.host).is_cut
            assert not network.link(c.host, a.host).is_cut
            network.reconnect(b.host)
            await asyncio.sleep(100)
            assert not network.link(a.host, b.host).is_cut

    passes(test)


def test_no_timer_outlives_the_faults() -> None:
    async def test(world: World) -> None:
        broker = await world.broker()
        app = world.process("app", sleep_forever)
        async with world.chaos(kill=[app], cut_network=True, fail_disks=[broker], every_seconds=1e6) as chaos:
            for fault in ("_slow_disk", "_fill_disk", "_fail_sync", "_cut_off", "_kill_one", "_die_inside"):
                inject(chaos, fault, 10)
        await asyncio.sleep(5)
        broker.disk.latency_ms = 20
        broker.disk.fill(1_000_000)
        broker.disk.fail_sync(1_000)
        world.network.cut_off(app.host)
        app.kill()
        await asyncio.sleep(20)
        assert broker.disk.latency_ms == 20
        assert broker.disk.file_system.room_bytes is not None
        assert broker.disk.file_system.syncs_until_failure is not None
        assert world.network.link(app.host, broker.host).is_cut
        assert not app.is_running

    passes(test)


def test_a_broker_at_the_operation_where_it_dies_does_not_live_on() -> None:
    async def test(world: World) -> None:
        broker = await world.broker()
        broker.die_at_operation(0, without_power=False)
        interrupt = broker.disk.file_system.interrupt
        assert interrupt is not None
        interrupt()
        broker.live_on()
        assert not broker.is_running
        assert not broker.host.is_silent

    passes(test)


def test_what_is_ended_at_once_is_not_ended_again() -> None:
    kernel = Kernel(1)
    endings, ended = Endings(kernel), list[str]()
    for name in ("a", "b"):
        endings.end_later(5, name, lambda name=name: ended.append(name))  # type: ignore[misc]
    endings.end_all()
    kernel.run_for(10 * SECOND)
    assert ended == ["a", "b"]
