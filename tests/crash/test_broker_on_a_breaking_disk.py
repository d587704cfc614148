"""A whole broker on a disk that breaks: what it acknowledged is there afterwards, or it says that it is lost.

The disk fills, fails, tears a write or fails a sync at one of its operations; the broker goes on as far as
it can; then the process or the machine dies, and another broker starts on what is left. `PLACES=all` tries
every operation, otherwise a sample is drawn by `SEED`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from kohort.broker.broker import running
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import Client
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.storage import StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem
from tests.crash.breaking_file_system import (
    BreakingFileSystem,
    Strike,
    disk_full,
    failing,
    failing_sync,
    lying_sync,
    torn_write,
)
from tests.crash.broker_client import TOPIC, Workload, committed_offset, fetched, fetched_anew

SEED = int(os.environ.get("SEED") or random.randrange(2**32))
SAMPLE = 5
ROUNDS = 9
AT_A_TIME = 16
PLACES = BrokerAddresses(Address("127.0.0.1", 0), Path("/data"))
CONFIG = load_config(None, (("offsets.topic.num.partitions", "1"),))


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Say where it was when something fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"SEED={SEED}: {where}")
        raise


async def life(disk: BreakingFileSystem, workload: Workload) -> MemoryFileSystem | None:
    """Let a broker live on the disk, and return what is left when it dies; None if it did not start."""
    try:
        async with running(CONFIG, PLACES, filesystem=disk) as broker:
            await workload.run(broker, ROUNDS)
            return disk.after_crash()
    except* StorageError:
        assert disk.struck or disk.failed_reads, "the disk was in order"
    return None


async def check(survivor: MemoryFileSystem, workload: Workload) -> None:
    """Start another broker on what is left, and compare it with what was acknowledged."""
    async with running(CONFIG, PLACES, filesystem=BreakingFileSystem.on(survivor)) as broker:
        client = await Client.to(broker)
        found = await fetched(client)
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert [value for _, value in found] == workload.sent[: len(found)], "each once, in order"
        assert workload.acknowledged.items() <= dict(found).items()
        if TOPIC in broker.metadata.snapshot().topics:
            assert workload.committed <= await committed_offset(client) <= workload.commits_tried


def operations_of_a_life() -> int:
    """Return how many operations a life without a fault takes."""
    disk = BreakingFileSystem()
    workload = Workload()
    assert trio.run(life, disk, workload) is not None
    assert len(workload.acknowledged) == workload.committed == ROUNDS
    return disk.count


@pytest.fixture(scope="module")
def places() -> list[int]:
    """The operations at which the disk breaks."""
    count = operations_of_a_life()
    if os.environ.get("PLACES") == "all":
        return list(range(count))
    return sorted(random.Random(SEED).sample(range(count), SAMPLE))


@pytest.mark.parametrize("strikes", [1, 1_000_000])
@pytest.mark.parametrize("strike", [disk_full, failing, failing_sync, torn_write])
def test_acknowledged_records_survive_a_failing_disk(strike: Strike, strikes: int, places: list[int]) -> None:
    with capture_logs():
        trio.run(break_everywhere, strike, strikes, places)


async def break_everywhere(strike: Strike, strikes: int, places: list[int]) -> None:
    """Let brokers live on disks that break at each of these places, several at a time."""
    limiter = trio.CapacityLimiter(AT_A_TIME)
    async with trio.open_nursery() as nursery:
        for place in places:
            nursery.start_soon(break_at, strike, strikes, place, limiter)


async def break_at(strike: Strike, strikes: int, place: int, limiter: trio.CapacityLimiter) -> None:
    """Let one broker live, and look at what is left when the process or the machine dies."""
    dice = random.Random(f"{SEED} {place}")
    disk, workload = BreakingFileSystem(), Workload()
    disk.strike, disk.strike_at, disk.strikes = strike, place, strikes
    with noted(f"{strike.__name__} at operation {place}, {strikes} times"):
        async with limiter:
            await life(disk, workload)
            await check(disk.after_crash(), workload)
            await check(disk.after_crash(choose=dice.randrange), workload)


async def test_a_disk_that_cannot_be_read_for_a_while_is_no_reason_to_answer_wrongly() -> None:
    disk, workload = BreakingFileSystem(), Workload()
    async with running(CONFIG, PLACES, filesystem=disk) as broker:
        await workload.run(broker, ROUNDS)
        whole = await fetched_anew(broker)
        for length in (1, 2):
            for place in range(4):
                disk.failed_reads = 0
                disk.fail_reads = range(disk.reads + place, disk.reads + place + length)
                with noted(f"reads {disk.fail_reads}"):
                    assert await fetched_anew(broker) == whole
        assert workload.acknowledged == dict(whole)


@pytest.mark.parametrize("reads", [1, 10])
def test_a_start_on_an_unreadable_disk_fails_or_serves_everything(reads: int) -> None:
    disk, workload = BreakingFileSystem(), Workload()
    trio.run(life, disk, workload)
    survivor = disk.after_crash()
    started = BreakingFileSystem.on(survivor)
    trio.run(check, started.after_crash(), workload)
    with capture_logs():
        for place in range(0, 40, 10):
            broken = BreakingFileSystem.on(survivor)
            broken.fail_reads = range(place, place + reads)
            with noted(f"reads {broken.fail_reads}"):
                trio.run(life, broken, Workload())
                trio.run(check, broken.after_crash(), workload)


def test_a_disk_that_lied_about_syncs_is_detected_after_a_power_failure() -> None:
    """Its checkpoints say what was there: the broker starts, serves what is left, and says what is lost."""
    disk, workload = BreakingFileSystem(), Workload()
    disk.strike, disk.strikes = lying_sync, 1_000_000

    async def live_until_a_checkpoint() -> MemoryFileSystem:
        async with running(CONFIG, PLACES, filesystem=disk) as broker:
            await workload.run(broker, ROUNDS)
            await broker.partitions.folder.save_log_starts()
            return disk.after_crash(choose=lambda limit: 0)  # Nothing is kept that need not be.

    survivor = trio.run(live_until_a_checkpoint)
    with capture_logs() as said:
        found = trio.run(read_again, survivor)
    assert len(found) < len(workload.acknowledged), "the disk lost nothing"
    lost = [each for each in said if each["event"] == "the disk has lost records that it had confirmed"]
    assert {each["topic"] for each in lost} >= {TOPIC}
    assert {each["log_level"] for each in lost} == {"error"}


async def read_again(survivor: MemoryFileSystem) -> list[tuple[int, bytes]]:
    """Return what another broker serves."""
    async with running(CONFIG, PLACES, filesystem=BreakingFileSystem.on(survivor)) as broker:
        return await fetched(await Client.to(broker))
