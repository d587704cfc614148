"""Producers and consumers that live for long, under kills: memory stays flat, and nothing is left behind.

KOHORT_TEST_SOAK_S says for how long; without it nothing is run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio
import pytest
import trio

from kohort.client import Consumer as BlockingConsumer
from kohort.client import NewTopic
from kohort.client import Producer as BlockingProducer
from kohort.client.aio import Admin, Consumer, Producer
from tests.interop.broker_process import BrokerProcess

SOAK_VARIABLE = "KOHORT_TEST_SOAK_S"
SECONDS = float(os.environ.get(SOAK_VARIABLE, "8"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
TOPIC, PARTITIONS = "soak", 4
CLASSIC, NEXT = "soak", "soak-next"
LIFE_S = (3.0, 8.0)
MEMBER_LIFE_S = (2.0, 10.0)
PRODUCER_LIFE_S = (1.0, 6.0)
BURST, PAUSE_S = 50, 0.02
SAMPLES = 40
GROWTH_MAX_BYTES = 8 << 20
"""What caches, buffers of other sizes and the heap's gaps may take; a leak of 200 bytes a record is more."""
FILES_MAX_MORE = 8
"""Connections that a kill breaks go after those that take their place."""
OBJECTS_MAX_MORE = 5_000
"""What the garbage collector knows of: less than one record each, were records kept."""
READ_PATIENCE_S = 120
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Ledger:
    """What one writer has written, and what one group has read of it, in little memory however much it is."""

    def __init__(self) -> None:
        self.acknowledged = 0
        """All numbers below it."""
        self._settled = 0
        self._ahead: set[int] = set()

    def read(self, number: int) -> None:
        """A group has seen a number, perhaps once more."""
        if number >= self._settled:
            self._ahead.add(number)
        while self._settled in self._ahead:
            self._ahead.discard(self._settled)
            self._settled += 1

    @property
    def unread(self) -> int:
        """How many acknowledged numbers nobody has seen, at most."""
        return self.acknowledged - self._settled


@dataclass
class Soak:
    """What the tasks and threads have done so far."""

    broker: BrokerProcess
    ledgers: dict[tuple[str, str], Ledger] = field(
        default_factory=lambda: {
            (writer, group): Ledger() for writer in ("trio", "thread") for group in (CLASSIC, NEXT)
        }
    )
    sent: Counter[str] = field(default_factory=Counter)
    lives: Counter[str] = field(default_factory=Counter)
    records_read: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    is_over: bool = False
    failures: list[BaseException] = field(default_factory=list)

    def next_values(self, writer: str) -> list[bytes]:
        """Return the next burst of a writer."""
        numbers = range(self.sent[writer], self.sent[writer] + BURST)
        self.sent[writer] += BURST
        return [f"{writer} {each}".encode() for each in numbers]

    def acknowledge(self, writer: str) -> None:
        """All that a writer has sent is written."""
        for (each, _), ledger in self.ledgers.items():
            if each == writer:
                ledger.acknowledged = self.sent[writer]

    def read(self, group: str, value: bytes | None) -> None:
        """A group has a record."""
        writer, number = (value or b"").decode().split()
        self.ledgers[writer, group].read(int(number))
        self.records_read[group] += 1

    def unread(self, group: str) -> int:
        """Return how many acknowledged records a group has still to read."""
        return sum(each.unread for (_, of), each in self.ledgers.items() if of == group)


def resident_bytes() -> int:
    """Return this process's memory, once what nobody holds is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def open_files() -> Counter[str]:
    """Return how many descriptors of each kind are open."""
    kinds: Counter[str] = Counter()
    for each in Path("/proc/self/fd").iterdir():
        try:
            kinds[each.readlink().name.partition(":")[0]] += 1
        except FileNotFoundError:  # The descriptor that lists the folder.
            continue
    return kinds


# In tasks


async def produce(soak: Soak) -> None:
    """Write numbers with one producer for the whole time."""
    async with Producer(bootstrap_servers=soak.broker.bootstrap, delivery_timeout_ms=60_000) as producer:
        while not soak.is_over:
            deliveries = [
                await producer.send(TOPIC, value=each, partition=place % PARTITIONS)
                for place, each in enumerate(soak.next_values("trio"))
            ]
            for delivery in deliveries:
                await delivery
            soak.acknowledge("trio")
            await anyio.sleep(PAUSE_S)


def member(soak: Soak) -> Consumer:
    """Return a member of the classic group that is missed soon where its goodbye is lost with the broker."""
    return Consumer(
        TOPIC,
        bootstrap_servers=soak.broker.bootstrap,
        group_id=CLASSIC,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )


async def live_as_members(soak: Soak, random: Random) -> None:
    """Be one member after the other, each for a while."""
    while not soak.is_over:
        soak.lives["members"] += 1
        async with member(soak) as consumer:
            with anyio.move_on_after(random.uniform(*MEMBER_LIFE_S)):
                while not soak.is_over:
                    for record in await consumer.poll(timeout_ms=200):
                        soak.read(CLASSIC, record.value)


async def kill(soak: Soak, random: Random) -> None:
    while not soak.is_over:
        await anyio.sleep(random.uniform(*LIFE_S))
        if not soak.is_over:
            await anyio.to_thread.run_sync(soak.broker.restart, signal.SIGKILL)
            soak.kills += 1


async def watch(soak: Soak) -> None:
    """Note memory and descriptors again and again, and end the soak."""
    for _ in range(SAMPLES):
        await anyio.sleep(SECONDS / SAMPLES)
        soak.memory.append(resident_bytes())
        soak.files.append(open_files().total())
        soak.objects.append(len(gc.get_objects()))
        if soak.failures:
            break
    soak.is_over = True


async def everything_is_read(soak: Soak) -> None:
    """Read on until every acknowledged record has been seen."""
    async with member(soak) as consumer:
        while soak.unread(CLASSIC):
            for record in await consumer.poll(timeout_ms=200):
                soak.read(CLASSIC, record.value)


# In threads


def produce_in_lives(soak: Soak, random: Random) -> None:
    """Be one blocking producer after the other: each is closed with records still on their way."""
    while not soak.is_over:
        soak.lives["blocking producers"] += 1
        until = time.monotonic() + random.uniform(*PRODUCER_LIFE_S)
        with BlockingProducer(
            bootstrap_servers=soak.broker.bootstrap, delivery_timeout_ms=60_000
        ) as producer:
            deliveries = []
            while not soak.is_over and time.monotonic() < until:
                for place, each in enumerate(soak.next_values("thread")):
                    deliveries.append(producer.send(TOPIC, each, partition=place % PARTITIONS))
                time.sleep(PAUSE_S)
        for delivery in deliveries:
            delivery.result(0)
        soak.acknowledge("thread")


def next_member(soak: Soak) -> BlockingConsumer:
    """Return a blocking member of the group of the consumer protocol."""
    return BlockingConsumer(
        TOPIC,
        bootstrap_servers=soak.broker.bootstrap,
        group_id=NEXT,
        group_protocol="consumer",
        auto_offset_reset="earliest",
    )


def read_in_lives(soak: Soak, random: Random) -> None:
    """Be one blocking member after the other; the last one reads until it has seen everything."""
    while not soak.is_over:
        soak.lives["blocking members"] += 1
        until = time.monotonic() + random.uniform(*MEMBER_LIFE_S)
        with next_member(soak) as consumer:
            while not soak.is_over and time.monotonic() < until:
                for record in consumer.poll(timeout_ms=200):
                    soak.read(NEXT, record.value)


def read_the_rest(soak: Soak) -> None:
    until = time.monotonic() + READ_PATIENCE_S
    with next_member(soak) as consumer:
        while soak.unread(NEXT) and time.monotonic() < until:
            for record in consumer.poll(timeout_ms=200):
                soak.read(NEXT, record.value)


def in_thread(soak: Soak, work: object, *args: object) -> threading.Thread:
    """Return a started thread, whose failure is the soak's."""
    assert callable(work)

    def run() -> None:
        try:
            work(soak, *args)
        except BaseException as error:  # noqa: BLE001 - The test raises it.
            soak.failures.append(error)
            soak.is_over = True

    thread = threading.Thread(target=run, name=f"soak-{getattr(work, '__name__', '')}")
    thread.start()
    return thread


# Together


@dataclass(frozen=True)
class Left:
    """What there is of what clients make for themselves."""

    trio_tasks: int
    asyncio_tasks: int
    threads: int
    files: Counter[str]

    @classmethod
    def now(cls) -> Left:
        gc.collect()
        return cls(
            trio.lowlevel.current_statistics().tasks_living,
            sum(isinstance(each, asyncio.Task) and not each.done() for each in gc.get_objects()),
            sum(each.name.startswith(("kohort", "soak")) for each in threading.enumerate()),
            open_files(),
        )


async def soak_under_kills(soak: Soak) -> None:
    random = Random(SEED)
    async with Admin(bootstrap_servers=soak.broker.bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, PARTITIONS))
    before = Left.now()
    async with anyio.create_task_group() as tasks:
        for work in (produce, watch):
            tasks.start_soon(work, soak)
        tasks.start_soon(kill, soak, random)
        for _ in range(2):
            tasks.start_soon(live_as_members, soak, random)
        threads = [in_thread(soak, each, Random(SEED)) for each in (produce_in_lives, read_in_lives)]
    for each in threads:
        await anyio.to_thread.run_sync(each.join)
    if soak.failures:
        raise soak.failures[0]
    with anyio.move_on_after(READ_PATIENCE_S):
        await everything_is_read(soak)
    await anyio.to_thread.run_sync(in_thread(soak, read_the_rest).join)
    if soak.failures:
        raise soak.failures[0]
    after = Left.now()
    assert after.trio_tasks <= before.trio_tasks, f"SEED={SEED}: tasks of trio are left behind"
    assert after.asyncio_tasks == 0, f"SEED={SEED}: tasks of asyncio are left behind"
    assert after.threads == 0, f"SEED={SEED}: threads are left behind"
    assert after.files <= before.files, f"SEED={SEED}: {after.files - before.files} are left open"
    assert soak.unread(CLASSIC) == 0, f"SEED={SEED}: records are lost to the classic group"
    assert soak.unread(NEXT) == 0, f"SEED={SEED}: records are lost to the group of the consumer protocol"


def grown_by(samples: list[int]) -> float:
    """Return by how much the last quarter stands above the one before: all is warm by then."""
    half = samples[len(samples) // 2 :]
    early, late = half[: len(half) // 2], half[len(half) // 2 :]
    return statistics.median(late) - statistics.median(early)


def told(soak: Soak, broker_bytes: int) -> str:
    """Return the soak's figures."""
    memory = ", ".join(f"{each / 1e6:.1f}" for each in soak.memory)
    return (
        f"SEED={SEED}: {SECONDS:.0f} s, {soak.kills} kills, sent {dict(soak.sent)}, read"
        f" {dict(soak.records_read)}, lives {dict(soak.lives)}; MB: {memory}; files: {soak.files};"
        f" objects: {soak.objects};"
        f" the broker's MB at the end: {broker_bytes / 1e6:.1f}"
    )


@pytest.fixture
def warnings() -> Iterator[Counter[str]]:
    """The clients' warnings by their module: pytest would keep each, with all that its traceback holds."""
    logger, counted = logging.getLogger("kohort"), Counter[str]()
    handler = logging.Handler()
    handler.emit = lambda record: counted.update([record.name])  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.propagate = False
    yield counted
    logger.propagate = True
    logger.removeHandler(handler)


@pytest.mark.skipif(SOAK_VARIABLE not in os.environ, reason=f"{SOAK_VARIABLE}=600 runs it")
def test_memory_stays_flat_and_no_task_remains(tmp_path: Path, warnings: Counter[str]) -> None:
    broker = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    broker.start()
    soak = Soak(broker)
    broker_bytes = 0
    try:
        trio.run(soak_under_kills, soak)
        broker_bytes = broker.resident_bytes()
    finally:
        broker.stop()
        figures = f"{told(soak, broker_bytes)}; warnings: {dict(warnings)}"
        sys.stderr.write(f"\n{figures}\n")
    assert min(soak.sent.values()) > BURST
    assert soak.lives["members"] >= 2
    assert soak.kills >= 1
    assert grown_by(soak.memory) < GROWTH_MAX_BYTES, f"memory grows; {figures}"
    assert grown_by(soak.files) < FILES_MAX_MORE, f"descriptors grow; {figures}"
    assert grown_by(soak.objects) < OBJECTS_MAX_MORE, f"objects are kept; {figures}"
