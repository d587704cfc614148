"""kohort's own client copies records exactly once while everything around it fails; by night many seeds."""

from functools import partial

import pytest

pytest.importorskip("aiokafka")

from kohort.testing.simulation import World
from kohort.testing.simulation.running import Test, run_seed
from kohort.testing.simulation.sharing_out import shared_out
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from tests.repetitions import repetitions
from tests.testing.exactly_once_copy import SOURCE, TARGET, Copies, copy_with_kohort, place

COUNT = 80
SEEDS = repetitions(4, by_night=2_000)
CLUSTER_SEEDS = repetitions(2, by_night=500)
CLUSTER = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


async def copies_are_made_once(world: World) -> None:
    """Copy by two processes; they, the broker, its disk and the network have all kinds of faults."""
    broker = await world.broker(topics={SOURCE: 2, TARGET: 1})
    await copy_once(world, broker.bootstrap, [broker])


async def copies_are_made_once_in_a_cluster(world: World) -> None:
    """Copy where coordinators and leaders move while transactions are open, and are being ended."""
    cluster = await world.cluster(3, topics={SOURCE: 2, TARGET: 1}, settings=CLUSTER)
    await copy_once(world, cluster.bootstrap, list(cluster.brokers.values()))


async def copy_once(world: World, bootstrap: str, brokers: list[SimulatedBroker]) -> None:
    """Copy each record while everything fails. Raises: AssertionError where one is missing or doubled."""
    copiers = [
        world.process(f"copier-{number}", copy_with_kohort, bootstrap, str(number), world.random)
        for number in range(2)
    ]
    copies = Copies()
    world.process("reader", copies.read, bootstrap)
    async with world.chaos(
        kill=copiers,
        restart=brokers,
        fail_disks=brokers,
        pause_seconds=40,
        cut_network=True,
        every_seconds=6,
    ):
        await place(bootstrap, COUNT)
    await world.until(lambda: len(copies.seen) == COUNT, 900)
    twice = sorted(number for number, count in copies.seen.items() if count > 1)
    assert not twice, f"copied more than once: {twice}"


def failed(seed: int, test: Test = copies_are_made_once) -> str:
    """Return what went wrong with the seed, and its story; nothing where it passes."""
    world, error = run_seed(test, seed)
    return "" if error is None else f"{error!r}\n{world.story_told}"


def test_kohorts_client_copies_each_record_once() -> None:
    for seed, found in shared_out(failed, range(SEEDS), 2, items_per_process=50):
        assert not found, f"seed {seed}: {found}"


def test_kohorts_client_copies_each_record_once_in_a_cluster() -> None:
    pytest.importorskip("httpx")
    run = partial(failed, test=copies_are_made_once_in_a_cluster)
    for seed, found in shared_out(run, range(CLUSTER_SEEDS), 2, items_per_process=50):
        assert not found, f"seed {seed}: {found}"
