"""A region on a simulated broker: its processes and the broker fail as the seed says, and the sums are exact.

The broker, the client, the members and the coordinators are the real ones. Only the operator's thread is not
there: the operator runs in its member's loop, in which it sleeps longer than the group's session at times.

KOHORT_TEST_REGION_SEEDS seeds (1 unless told).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from kohort.client import ConsumerRecord, TopicPartition, aio
from kohort.client.config import ConsumerOptions
from kohort.queues.region import Region, RegionCoordinator, RegionMember, region_state
from kohort.queues.region import member as member_module
from kohort.queues.region.entries import RegionState, decode
from kohort.queues.region.executors import CallingExecutor, Isolation, Operator, call_operator
from kohort.queues.region.view import RegionView
from kohort.testing.simulation import World, simulate
from tests.queues.region_process import SLEEP_S, Sum, is_slow
from tests.simulation.whole.reading import read_to_end

SEEDS = int(os.environ.get("KOHORT_TEST_REGION_SEEDS", "1"))
TOPIC, PARTITIONS, RECORDS = "numbers", 4, 200
REGION = Region("sums", members=3, period_ms=2_000, consecutive_resets_max=1_000)
BURST, BURST_SECONDS = 20, 2.0
WORK_SECONDS = 0.2  # A record takes that long: drains come while there is work.
SLOW_EVERY = 97
SETTLED_SECONDS_MAX = 400.0


class InLoop(CallingExecutor):
    """Runs the operator in its member's loop: a simulation has no threads."""

    def __init__(self, operator: Operator, _isolation: Isolation) -> None:
        self._operator = operator

    async def __aenter__(self) -> InLoop:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing was opened."""

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await call_operator(self._operator, method, *arguments)


class SlowSum(Sum):
    """Waits with some values longer than its member may be silent."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        await asyncio.sleep(SLEEP_S if is_slow(int(record.value)) else WORK_SECONDS)
        await super().process(record)


def options(bootstrap: str) -> ConsumerOptions:
    return {"bootstrap_servers": bootstrap, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_500}


async def be_member(name: str, bootstrap: str) -> None:
    await RegionMember(REGION, name, SlowSum(), topics=[TOPIC], **options(bootstrap)).run()


async def coordinate(bootstrap: str) -> None:
    await RegionCoordinator(REGION, **options(bootstrap)).run()


async def send(world: World, bootstrap: str) -> None:
    """Send values for a while; each that is sent is in the topic once."""
    async with aio.Producer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for number in range(RECORDS):
            value = world.random.randrange(10**6) * 1_000 + (7 if number % SLOW_EVERY == 50 else 1)
            await producer.send(TOPIC, b"%d" % value, partition=number % PARTITIONS)
            if number % BURST == BURST - 1:
                await asyncio.sleep(BURST_SECONDS)


async def read(bootstrap: str, topic: str, partitions: int = 1) -> list[ConsumerRecord[bytes, bytes]]:
    """Return all records of a topic."""
    where = [TopicPartition(topic, each) for each in range(partitions)]
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        return await read_to_end(consumer, *where)


async def checked_checkpoints(bootstrap: str) -> int:
    """Return how many checkpoints there were. Each has the sums of the records before its offsets."""
    written = await read(bootstrap, TOPIC, PARTITIONS)
    states = {each.offset: each.value for each in await read(bootstrap, REGION.states_topic)}
    view, checked = RegionView(), 0
    for record in await read(bootstrap, REGION.log_topic):
        view.take(record.offset, decode(record.key, record.value))
        state = view.state
        if state is None or state.completed == checked:
            continue
        checked = state.completed
        before = [
            int(each.value)
            for each in written
            if each.offset < state.offsets.get(f"{TOPIC}-{each.partition}", 0)
        ]
        saved = [states[int(each.partition(":")[0])] for each in state.saved.values() if each is not None]
        pairs = [tuple(map(int, each.split())) for each in saved]
        found = sum(each[0] for each in pairs), sum(each[1] for each in pairs)
        assert found == (sum(before), len(before)), f"checkpoint {checked}"
    return checked


async def until(bootstrap: str, holds: Callable[[RegionState], bool]) -> RegionState:
    """Return the region's state once it holds."""
    while True:
        state = await region_state(REGION, **options(bootstrap))
        if state is not None and holds(state):
            return state
        await asyncio.sleep(1.0)


async def sums_are_exact(world: World) -> None:
    broker = await world.broker(topics={TOPIC: PARTITIONS})
    members = [world.process(name, be_member, name, broker.bootstrap) for name in "abc"]
    coordinators = [world.process(f"coordinator-{each}", coordinate, broker.bootstrap) for each in range(2)]
    processes = [*members, *coordinators]
    async with world.chaos(kill=processes, restart=[broker], pause_seconds=20, cut_network=True):
        await send(world, broker.bootstrap)
    async with asyncio.timeout(SETTLED_SECONDS_MAX):
        state = await until(broker.bootstrap, lambda state: sum(state.offsets.values()) == RECORDS)
    assert len(await read(broker.bootstrap, TOPIC, PARTITIONS)) == RECORDS
    assert await checked_checkpoints(broker.bootstrap) == state.completed
    world.note(f"{state.attempt} attempts, {state.completed} the last checkpoint")


@simulate(seeds=SEEDS)
async def test_the_sums_have_each_record_once(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member_module, "executor_for", InLoop)
        await sums_are_exact(world)
