"""Whether a whole broker says that it is not ready where one of its parts is not well."""

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import prepared, running
from kohort.broker.http.readiness import not_ready
from kohort.broker.partitions import flusher
from kohort.broker.runtime import supervisor
from kohort.protocol.records import build_batch
from kohort.storage import StorageError
from kohort.storage.journal import Journal

PATIENCE_SECONDS = 10


class Disk(NamedTuple):
    total: int
    free: int


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not condition():
            await trio.sleep(0.02)


def says(broker: Broker, words: str) -> bool:
    return any(words in reason for reason in not_ready(broker.view()))


async def test_a_healthy_broker_is_ready_and_watches_all_parts(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        await until(lambda: not_ready(broker.view()) == [])
        await until(lambda: broker.disk.free_bytes is not None)
        assert broker.disk.free_bytes == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
        assert {part.name for part in broker.supervisor.parts} >= {
            "event loop",
            "checkpoint",
            "disk space",
            "lag of groups",
            "log cleaner",
            "log retention",
        }


async def test_a_failed_task_makes_the_broker_not_ready_without_ending_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STEADY_MS", 200)
    monkeypatch.setattr(supervisor, "RESTART_MS_MIN", 200)

    async with running(tmp_path) as broker:
        client = await prepared(broker)
        fails = True

        async def look() -> None:
            if fails:
                raise KeyError("a bug")

        monkeypatch.setattr(broker.disk, "look", look)
        part = broker.supervisor.start("a failing task", broker.disk.run)
        await until(lambda: says(broker, "a failing task: failed, and is started again: KeyError"))
        assert client is not None
        fails = False
        await until(lambda: not says(broker, "a failing task"))
        assert part.restarts >= 1


async def test_a_full_disk_makes_the_broker_not_ready_until_it_has_space(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        broker.disk._usage = lambda path: Disk(1 << 30, 1 << 20)
        await broker.disk.look()
        assert says(broker, "the disk is full: 1048576 bytes are free")
        broker.disk._usage = lambda path: Disk(1 << 30, 1 << 29)
        await broker.disk.look()
        assert not says(broker, "the disk is full")


async def test_a_stopped_loop_makes_the_broker_not_ready(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        broker._loop_part.beat(again_within_ms=-5_000)
        assert says(broker, "event loop: no sign of life for 5 s")
        broker._beat()
        assert not says(broker, "event loop")


async def test_a_failed_journal_makes_the_broker_not_ready(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        broker.journal.failure = StorageError("group-commit.journal: input/output error")
        assert says(broker, "the journal failed: group-commit.journal: input/output error")
        broker.journal.failure = None


async def test_a_hanging_flush_makes_the_broker_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher, "INLINE_BYTES_MAX", 0)
    monkeypatch.setattr("kohort.broker.http.health.FLUSH_SECONDS_MAX", 0.1)
    goes_on = Event()
    run = flusher.Job.run

    def hang(job: flusher.Job, journal: Journal) -> None:
        goes_on.wait(PATIENCE_SECONDS)
        run(job, journal)

    async with running(tmp_path) as broker:
        await prepared(broker)
        monkeypatch.setattr(flusher.Job, "run", hang)
        partition = await broker.partitions.opened("air", 1)
        partition.append_own(build_batch([(1, None, b"x", ())]))
        written = trio.Event()
        broker.flusher.request(partition, lambda error: written.set())
        await until(lambda: says(broker, "a flush has been under way"))
        goes_on.set()
        with trio.fail_after(PATIENCE_SECONDS):
            await written.wait()
        assert not says(broker, "a flush has been under way")
