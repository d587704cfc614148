"""What seeds have found in published clients, and that kohort's own client passes the same seeds."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

pytest.importorskip("aiokafka")

from kohort.testing.simulation import World
from kohort.testing.simulation.running import run_seed
from tests.testing.exactly_once_copy import (
    SOURCE,
    TARGET,
    Copies,
    copy_with_aiokafka,
    copy_with_kohort,
    place,
)

COUNT = 120
SEEDS_MAX = 10

Copy = Callable[[str, str, Random], Coroutine[Any, Any, None]]


def exactly_once_with(copy: Copy) -> Callable[[World], Coroutine[Any, Any, None]]:
    """Return a test of two copiers that stand still for longer than their session, at times."""

    async def test_copies_are_made_once(world: World) -> None:
        broker = await world.broker(topics={SOURCE: 2, TARGET: 1})
        copiers = [
            world.process(f"copier-{number}", copy, broker.bootstrap, str(number), world.random)
            for number in range(2)
        ]
        copies = Copies()
        world.process("reader", copies.read, broker.bootstrap)
        async with world.chaos(pause=copiers, pause_seconds=40, every_seconds=8):
            await place(broker.bootstrap, COUNT)
        await world.until(lambda: len(copies.seen) == COUNT, 900)
        twice = sorted(number for number, count in copies.seen.items() if count > 1)
        assert not twice, f"copied more than once: {twice}"

    return test_copies_are_made_once


def test_aiokafka_commits_offsets_of_a_generation_that_is_over() -> None:
    """Its transactional offset commits name no member and no generation (KIP-447), so nobody fences them."""
    errors = (run_seed(exactly_once_with(copy_with_aiokafka), seed)[1] for seed in range(SEEDS_MAX))
    found = next((each for each in errors if each is not None), None)
    assert "copied more than once" in str(found)


def test_kohort_passes_the_same_seeds() -> None:
    for seed in range(SEEDS_MAX):
        world, error = run_seed(exactly_once_with(copy_with_kohort), seed)
        assert error is None, world.story_told
