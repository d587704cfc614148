"""Producers that begin after etcd was restored from a backup: what they write is there."""

import asyncio

import pytest

from kohort.client import NewTopic, aio
from kohort.testing.simulation import World
from kohort.testing.simulation.running import run_seed
from tests.simulation.whole.reading import read_values

pytest.importorskip("httpx")

TOPIC = "orders"
PRODUCERS = 4


async def write(bootstrap: str, name: str) -> set[str]:
    """Write by one new producer after another. Each has the sequence number 0 first."""
    values = {f"{name}-{number}" for number in range(PRODUCERS)}
    for value in sorted(values):
        async with aio.Producer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
            await (await producer.send(TOPIC, value.encode(), partition=0))
    return values


async def restore(world: World, *, is_running: bool) -> None:
    """Write before and after a restore of metadata that know of no producer."""
    cluster = await world.cluster(3)
    brokers = list(cluster.brokers.values())
    async with aio.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, 1, 3))
    backup = cluster.etcd.backup()
    written = await write(cluster.bootstrap, "before")
    for broker in brokers:
        broker.stop()
    await world.until(lambda: not any(each.is_running for each in brokers))
    if is_running:
        for broker in brokers:
            broker.start()
        await world.until(lambda: cluster.is_complete)
    cluster.etcd.restore(backup)
    if not is_running:
        for broker in brokers:
            broker.start()
    await asyncio.sleep(30)
    await world.until(lambda: cluster.is_complete)
    written |= await write(cluster.bootstrap, "after")
    assert await read_values(cluster.bootstrap, TOPIC) == written


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_new_producers_are_not_taken_for_earlier_ones(seed: int, is_running: bool) -> None:
    world, error = run_seed(lambda each: restore(each, is_running=is_running), seed)
    assert error is None, world.story_told
