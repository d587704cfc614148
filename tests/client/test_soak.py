"""Producers and consumers that live for long, under kills: memory stays flat, and nothing is left behind.

KOHORT_TEST_SOAK_S says for how long; without it nothing is run.
"""

from __future__ import annotations

import gc
import os
import secrets
import statistics
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio
import pytest
import trio

from kohort.client import NewTopic
from kohort.client.aio import Admin, Consumer, Producer
from tests.interop.broker_process import BrokerProcess

SOAK_VARIABLE = "KOHORT_TEST_SOAK_S"
SECONDS = float(os.environ.get(SOAK_VARIABLE, "8"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
TOPIC, GROUP, PARTITIONS = "soak", "soak", 4
LIFE_S = (3.0, 8.0)
MEMBER_LIFE_S = (2.0, 10.0)
BURST, PAUSE_S = 50, 0.02
SAMPLES = 40
GROWTH_MAX_BYTES = 8 << 20
"""What caches, buffers of other sizes and the heap's gaps may take; a leak of 200 bytes a record is more."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Soak:
    """What the tasks have done so far."""

    bootstrap: str
    acknowledged: set[int] = field(default_factory=set)
    sent: int = 0
    read: set[int] = field(default_factory=set)
    kills: int = 0
    members: int = 0
    memory: list[int] = field(default_factory=list)
    is_over: bool = False


def resident_bytes() -> int:
    """Return this process's memory, once what nobody holds is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def produce(soak: Soak) -> None:
    """Write numbers, which a set of ranges would not remember: acknowledged ones are struck off when read."""
    async with Producer(bootstrap_servers=soak.bootstrap, delivery_timeout_ms=60_000) as producer:
        while not soak.is_over:
            numbers = range(soak.sent, soak.sent + BURST)
            deliveries = [
                await producer.send(TOPIC, value=b"%d" % each, partition=each % PARTITIONS)
                for each in numbers
            ]
            soak.sent += BURST
            for number, delivery in zip(numbers, deliveries, strict=True):
                await delivery
                soak.acknowledged.add(number)
            await anyio.sleep(PAUSE_S)


def member(soak: Soak) -> Consumer:
    """Return a member of the group that is missed soon where its goodbye is lost with the broker."""
    return Consumer(
        TOPIC,
        bootstrap_servers=soak.bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )


async def live_as_members(soak: Soak, random: Random) -> None:
    """Be one member after the other, each for a while."""
    while not soak.is_over:
        soak.members += 1
        async with member(soak) as consumer:
            with anyio.move_on_after(random.uniform(*MEMBER_LIFE_S)):
                while not soak.is_over:
                    for record in await consumer.poll(timeout_ms=200):
                        strike(soak, int(record.value or b"-1"))


def strike(soak: Soak, number: int) -> None:
    """Take notice of a record; what is both acknowledged and read needs no memory."""
    soak.read.add(number)
    both = soak.read & soak.acknowledged if len(soak.read) > 10 * BURST else set[int]()
    soak.read -= both
    soak.acknowledged -= both


async def kill(soak: Soak, broker: BrokerProcess, random: Random) -> None:
    while not soak.is_over:
        await anyio.sleep(random.uniform(*LIFE_S))
        if not soak.is_over:
            await anyio.to_thread.run_sync(lambda: (broker.kill(), broker.start()))
            soak.kills += 1


async def watch(soak: Soak) -> None:
    """Note the memory again and again, and end the soak."""
    for _ in range(SAMPLES):
        await anyio.sleep(SECONDS / SAMPLES)
        soak.memory.append(resident_bytes())
    soak.is_over = True


async def everything_is_read(soak: Soak) -> None:
    """Read on until every acknowledged record has been seen."""
    async with member(soak) as consumer:
        while soak.acknowledged - soak.read:
            for record in await consumer.poll(timeout_ms=200):
                soak.read.add(int(record.value or b"-1"))


def left_behind() -> tuple[int, int, int]:
    """Return how many tasks, threads and sockets there are."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    sockets = [each for each in Path("/proc/self/fd").iterdir() if is_socket(each)]
    return tasks, threading.active_count(), len(sockets)


def is_socket(file: Path) -> bool:
    try:
        return file.readlink().name.startswith("socket:")
    except FileNotFoundError:  # The descriptor that lists the folder.
        return False


async def soak_under_kills(soak: Soak, broker: BrokerProcess) -> None:
    random = Random(SEED)
    async with Admin(bootstrap_servers=soak.bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, PARTITIONS, configs={"retention.bytes": str(64 << 20)}))
    await anyio.to_thread.run_sync(gc.collect)  # The thread that kills is there from now on.
    before = left_behind()
    async with anyio.create_task_group() as tasks:
        for work in (produce, watch):
            tasks.start_soon(work, soak)
        tasks.start_soon(kill, soak, broker, random)
        for _ in range(2):
            tasks.start_soon(live_as_members, soak, random)
    with anyio.fail_after(60):
        await everything_is_read(soak)
    gc.collect()
    tasks_left, threads_left, files_left = left_behind()
    assert tasks_left <= before[0], f"SEED={SEED}: tasks are left behind"
    assert threads_left <= before[1], f"SEED={SEED}: threads are left behind"
    assert files_left <= before[2], f"SEED={SEED}: sockets are left behind"


@pytest.mark.skipif(SOAK_VARIABLE not in os.environ, reason=f"{SOAK_VARIABLE}=600 runs it")
def test_memory_stays_flat_and_no_task_is_left_behind(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    broker.start()
    soak = Soak(broker.bootstrap)
    try:
        trio.run(soak_under_kills, soak, broker)
    finally:
        broker.stop()
    assert soak.sent > BURST
    assert soak.members >= 2
    assert soak.kills >= 1
    half = soak.memory[len(soak.memory) // 2 :]
    early, late = half[: len(half) // 2], half[len(half) // 2 :]
    growth = statistics.median(late) - statistics.median(early)
    told = [round(each / 1e6, 1) for each in soak.memory]
    assert growth < GROWTH_MAX_BYTES, f"SEED={SEED}: {growth / 1e6:.1f} MB more; MB: {told}"
