"""A run is its seed's alone, whatever its Python process has done before."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import pytest

from kohort.testing.simulation import kernel
from kohort.testing.simulation.kernel import SimulationStuck
from kohort.testing.simulation.running import run_seed
from kohort.testing.simulation.world import World

GENERATORS = 400


@pytest.fixture
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def ends_of_dropped_generators() -> list[int]:
    """Return when async generators end that were dropped in reference cycles."""
    ends: list[int] = []

    async def drop_generators(world: World) -> None:
        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                ends.append(world.kernel.time_ns)

        for _ in range(GENERATORS):
            cycle: list[object] = [generator := numbers()]
            cycle.append(cycle)
            await anext(generator)
            for _ in range(10):
                await asyncio.sleep(0.01)

    _, error = run_seed(drop_generators, 1)
    assert error is None
    assert gc.isenabled()
    return ends


def test_a_run_that_spins_ends_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "ACTIONS_MAX", 10_000)

    async def spin(_world: World) -> None:
        while True:
            await asyncio.sleep(0)

    world, error = run_seed(spin, 1)
    assert isinstance(error, SimulationStuck)
    assert "10,000 actions" in str(error)
    assert world.kernel.actions_run < 10_000 + kernel.ACTIONS_PER_COLLECTION
    assert gc.isenabled()


@pytest.mark.usefixtures("_thresholds")
def test_garbage_is_collected_when_the_seed_says_so() -> None:
    ends = ends_of_dropped_generators()
    assert len(set(ends)) > 1, "some ended while the run went on"
    for threshold in (20, 100_000):
        gc.set_threshold(threshold)
        assert ends_of_dropped_generators() == ends


@pytest.mark.usefixtures("_thresholds")
def test_what_was_dropped_before_a_run_does_not_end_within_it() -> None:
    gc.set_threshold(1_000_000)
    ended: list[bool] = []
    is_within = False

    class Dropped:
        def __del__(self) -> None:
            ended.append(is_within)

    async def wait(_world: World) -> None:
        nonlocal is_within
        is_within = True
        for _ in range(5_000):
            await asyncio.sleep(0.01)
        is_within = False

    gc.freeze()  # As who embeds a broker may do.
    try:
        dropped: list[object] = [Dropped()]
        dropped.append(dropped)
        del dropped
        assert run_seed(wait, 1)[1] is None
    finally:
        gc.unfreeze()
    assert ended == [False]
