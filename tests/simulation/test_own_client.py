"""kohort's own client copies records exactly once while everything around it fails; by night many seeds."""

import pytest

pytest.importorskip("aiokafka")

from kohort.testing.simulation import World
from kohort.testing.simulation.running import run_seed
from kohort.testing.simulation.sharing_out import shared_out
from tests.repetitions import repetitions
from tests.testing.exactly_once_copy import SOURCE, TARGET, Copies, copy_with_kohort, place

COUNT = 80
SEEDS = repetitions(4, by_night=2_000)


async def copies_are_made_once(world: World) -> None:
    """Copy by two processes; they, the broker, its disk and the network have all kinds of faults."""
    broker = await world.broker(topics={SOURCE: 2, TARGET: 1})
    copiers = [
        world.process(f"copier-{number}", copy_with_kohort, broker.bootstrap, str(number), world.random)
        for number in range(2)
    ]
    copies = Copies()
    world.process("reader", copies.read, broker.bootstrap)
    async with world.chaos(
        kill=copiers,
        restart=[broker],
        fail_disks=[broker],
        pause_seconds=40,
        cut_network=True,
        every_seconds=6,
    ):
        await place(broker.bootstrap, COUNT)
    await world.until(lambda: len(copies.seen) == COUNT, 900)
    twice = sorted(number for number, count in copies.seen.items() if count > 1)
    assert not twice, f"copied more than once: {twice}"


def failed(seed: int) -> str:
    """Return what went wrong with the seed, and its story; nothing where it passes."""
    world, error = run_seed(copies_are_made_once, seed)
    return "" if error is None else f"{error!r}\n{world.story_told}"


def test_kohorts_client_copies_each_record_once() -> None:
    for seed, found in shared_out(failed, range(SEEDS), 2, items_per_process=50):
        assert not found, f"seed {seed}: {found}"
