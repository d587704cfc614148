"""An unmodified aiokafka application under seeds: the sound one passes, five mistakes are found."""

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("aiokafka")

from kohort.testing.simulation import World, at_least_once, simulate
from kohort.testing.simulation.running import SEED_VARIABLE, SimulationFailed, failure, run_seed
from tests.hash_seeds import under_hash_seeds
from tests.testing.order_service import Database, Shop, place_orders

ORDERS = 120
SEEDS_MAX = 100

Test = Callable[[World], Coroutine[Any, Any, None]]


def a_day_at_the_shop(mistake: str = "", *, faults: bool = True) -> Test:
    """Return a test of three shops that handle orders while all kinds of things happen."""

    async def test_the_shop(world: World) -> None:
        broker = await world.broker(topics={"orders": 3})
        database = Database()

        async def run_shop(bootstrap: str) -> None:
            await Shop(database, mistake).run(bootstrap)

        shops = [world.process(f"shop-{number}", run_shop, broker.bootstrap) for number in range(3)]
        victims = (
            {"kill": shops, "pause_seconds": 15, "restart": [broker], "cut_network": True} if faults else {}
        )
        async with world.chaos(**victims):  # type: ignore[arg-type]
            await place_orders(broker.bootstrap, database, ORDERS, mistake)
        await world.until(lambda: all(database.shipped[each] for each in database.placed), 900)
        at_least_once(database.placed, database.shipped)
        assert max(database.shipped.values()) == 1, "an order was shipped twice"
        for customer in range(5):
            count = len([each for each in database.placed if each % 5 == customer])
            assert database.totals[customer] >= count, (
                f"customer {customer} has fewer orders than were shipped"
            )

    return test_the_shop


@pytest.mark.parametrize("seed", range(5))
def test_the_sound_service_passes(seed: int) -> None:
    world, error = run_seed(a_day_at_the_shop(), seed)
    assert error is None, world.story_told
    assert len([each for each in world.faults if each.words != "nothing"]) > 0


MISTAKES = {
    "commits before it works": "did not hold within",
    "ships again": "shipped twice",
    "keeps its state": "fewer orders",
    "works too long": "shipped twice|did not hold within",  # Or nobody gets beyond its first order.
    "loses errors": "did not hold within",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_found_and_told(mistake: str) -> None:
    test = a_day_at_the_shop(mistake, faults=mistake != "works too long")
    for seed in range(SEEDS_MAX):
        world, error = run_seed(test, seed)
        if error is not None:
            break
    assert error is not None, f"{SEEDS_MAX} seeds have not found it"
    assert re.search(MISTAKES[mistake], str(error)), world.story_told
    told = str(failure(test, world, error))
    assert f"--kohort-seed {seed}" in told
    assert "group shop: generation" in told


async def orders_on_a_cluster(world: World) -> None:
    """Orders are placed and shipped while brokers, shops and etcd have all kinds of faults."""
    cluster = await world.cluster(3, topics={"orders": 3})
    cluster.etcd.lost_answers = cluster.etcd.lost_requests = 0.02
    database = Database()

    async def run_shop(bootstrap: str) -> None:
        await Shop(database).run(bootstrap)

    shops = [world.process(f"shop-{number}", run_shop, cluster.bootstrap) for number in range(3)]
    servers: list[Any] = [*cluster.brokers.values(), *cluster.etcd.members]
    async with world.chaos(kill=shops, restart=servers, pause_seconds=15, cut_network=True):
        await place_orders(cluster.bootstrap, database, ORDERS)
    cluster.etcd.lost_answers = cluster.etcd.lost_requests = 0.0
    await world.until(lambda: all(database.shipped[each] for each in database.placed), 900)
    at_least_once(database.placed, database.shipped)


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_loses_no_order(seed: int) -> None:
    pytest.importorskip("httpx")
    world, error = run_seed(orders_on_a_cluster, seed)
    assert error is None, world.story_told
    assert world.faults


def digest_of(seed: int) -> str:
    """Return all that happened in a run, for a comparison between processes."""
    world, error = run_seed(a_day_at_the_shop(), seed)
    assert error is None
    return world.fingerprint


def test_a_seed_gives_the_same_run_in_two_processes() -> None:
    # aiokafka goes through sets of partitions, so the hash seed is the same one.
    assert len(under_hash_seeds(f"from {__name__} import digest_of; print(digest_of(3))", 7, 7)) == 1


@pytest.mark.parametrize(("hash_seed", "said"), [("7", "PYTHONHASHSEED=7 pytest"), ("random", "was random")])
def test_a_failure_names_the_hash_seed(monkeypatch: pytest.MonkeyPatch, hash_seed: str, said: str) -> None:
    async def test_fails(world: World) -> None:
        raise AssertionError("it fails")

    monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
    world, error = run_seed(test_fails, 0)
    assert error is not None
    told = str(failure(test_fails, world, error))
    assert said in told
    assert "pytest -k test_fails --kohort-seed 0" in told


def test_processes_share_the_seeds_and_the_failure_is_told_here(monkeypatch: pytest.MonkeyPatch) -> None:
    @simulate(seeds=6, processes=2)
    async def test(world: World) -> None:
        assert world.seed < 4, "the seed is too high"

    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    with pytest.raises(SimulationFailed, match="seed 4: AssertionError: the seed is too high"):
        test()


def test_a_failure_that_is_not_the_seeds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    @simulate(seeds=2, processes=2)
    async def test(world: World) -> None:
        assert os.getpid() == here

    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    with pytest.raises(SimulationFailed, match="seed 0 failed in a process of its own and passes here"):
        test()


def test_a_process_that_dies_is_told_with_the_seeds_that_were_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = os.getpid()

    @simulate(seeds=8, processes=2)
    async def test(world: World) -> None:
        if world.seed == 5 and os.getpid() != here:
            os._exit(9)

    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    with pytest.raises(SimulationFailed, match=r"one of \[.*5.*\]; run each of these seeds alone") as raised:
        test()
    assert str(raised.value).count(",") <= 1


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_the_simulation_itself_is_told_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    def fail() -> None:
        raise LookupError("the simulation is broken")

    @simulate(seeds=4, processes=processes)
    async def test(world: World) -> None:
        if world.seed == 2:
            world.kernel.call_after(0, fail)
            await asyncio.sleep(1)

    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    with pytest.raises(LookupError, match="the simulation is broken") as raised:
        test()
    assert "this came of seed 2" in raised.value.__notes__


def test_a_simulated_test_runs_once_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[int]()

    @simulate(seeds=3)
    async def test(world: World) -> None:
        runs.append(world.seed)
        broker = await world.broker()
        assert broker.is_serving
        assert world.seconds > 0

    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    test()
    assert runs == [0, 1, 2]
    monkeypatch.setenv(SEED_VARIABLE, "17")
    test()
    assert runs == [0, 1, 2, 17]
