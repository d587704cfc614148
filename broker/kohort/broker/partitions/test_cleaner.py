"""The cleaner and the retention beside a data plane: what goes, what stays, what is counted."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.test_support import World, append_produced, batch_of
from kohort.broker.partitions.throttler import Throttler
from kohort.protocol.records import iterate_records
from kohort.storage import PartitionLog, StorageError

SMALL = {"internal.segment.bytes": "600", "min.cleanable.dirty.ratio": "0.1"}
COMPACTED = {**SMALL, "cleanup.policy": "compact"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.flusher.immediate = True
    return world


def offsets(world: World, name: str) -> list[int]:
    log = world.partition(name).log
    return [record.offset for batch in log.read_batches() for record in iterate_records(batch)]


def write_alternating(world: World, name: str, batches: int) -> None:
    """Write the same few keys again and again."""
    partition = world.partition(name)
    for number in range(batches):
        batch = batch_of(b"x" * 50, key=b"key %d" % (number % 3), timestamp_ms=world.clock.now_ms())
        append_produced(partition, batch, world.clock.now_ms())
        world.flusher.request(partition, lambda _: None)


async def test_a_compacted_log_keeps_the_newest_record_of_each_key_and_its_cleaned_offset(
    world: World,
) -> None:
    world.create("t", configs=COMPACTED)
    write_alternating(world, "t", 40)
    assert await world.cleaner().clean_dirtiest()
    active = world.partition("t").log.segments[-1].base_offset
    assert offsets(world, "t") == [*range(active - 3, active), *range(active, 40)]
    assert world.data.records.cleaner_offsets() == {("t", 0): active}
    written = (world.data.path / "cleaner-offset-checkpoint").read_text()
    assert written == f"0\n1\nt 0 {active}\n"
    counters = world.counters.cleaning
    assert (counters.rounds, counters.uncleanable) == (1, 0)
    assert counters.read_bytes > counters.written_bytes > 0


async def test_a_clean_log_and_a_log_without_compaction_are_not_cleaned(world: World) -> None:
    world.create("t", configs=COMPACTED)
    world.create("u", configs=SMALL)
    write_alternating(world, "t", 40)
    write_alternating(world, "u", 40)
    cleaner = world.cleaner()
    assert await cleaner.clean_dirtiest()
    assert not await cleaner.clean_dirtiest()
    assert len(offsets(world, "u")) == 40


async def test_the_dirtiest_log_is_cleaned_first(world: World) -> None:
    for name, batches in (("a", 20), ("b", 20)):
        world.create(name, configs=COMPACTED)
        write_alternating(world, name, batches)
    cleaner = world.cleaner()
    assert await cleaner.clean_dirtiest()
    cleaned_first = next(iter(world.data.records.cleaner_offsets()))[0]
    write_alternating(world, cleaned_first, 8)
    assert await cleaner.clean_dirtiest()
    assert len(world.data.records.cleaner_offsets()) == 2


async def test_a_damaged_log_is_skipped_later_and_still_serves(world: World) -> None:
    world.create("t", configs=COMPACTED)
    write_alternating(world, "t", 40)
    log = world.partition("t").log
    log.segments[1].file.write_at([b"????"], 70)
    cleaner = world.cleaner()
    assert await cleaner.clean_dirtiest()
    assert not await cleaner.clean_dirtiest()
    assert world.counters.cleaning.uncleanable == 1
    assert world.partition("t").error_code is None


async def test_a_topic_that_is_deleted_while_it_is_compacted_ends_the_round_quietly(world: World) -> None:
    world.create("t", configs=COMPACTED)
    write_alternating(world, "t", 40)
    cleaner = world.cleaner()

    async def delete() -> None:
        world.delete("t")
        await trio.to_thread.run_sync(world.finish_file_work)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cleaner.clean_dirtiest)
        nursery.start_soon(delete)
    assert world.counters.cleaning.uncleanable == 0
    assert not (world.data.path / "t-0").exists()


async def test_a_log_reopened_during_compaction_is_not_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t", configs=COMPACTED)
    write_alternating(world, "t", 40)
    partition = world.partition("t")
    before = partition.log
    cleaner = world.cleaner()
    between_writes = world.table.between_writes

    async def reopened_first(each: Partition, action: Callable[[], None]) -> None:
        partition.failed(StorageError("the disk hiccups"))
        partition.offline = None
        partition.log = PartitionLog.open(
            world.filesystem,
            before.directory,
            topic="t",
            topic_id=partition.topic_id,
            index=0,
            config=before.config,
            clean=False,
            recovery_point=0,
        )
        world.data.records.opened(("t", 0), partition.log)
        await between_writes(each, action)

    monkeypatch.setattr(world.table, "between_writes", reopened_first)
    kept = offsets(world, "t")
    assert await cleaner.clean_dirtiest()
    assert offsets(world, "t") == kept, "the files are another log's by now"
    assert world.data.records.cleaner_offset("t", 0) is None


async def test_the_cleaner_sleeps_while_it_is_disabled(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path, log_cleaner_enable=False)
    world.flusher.immediate = True
    world.create("t", configs=COMPACTED)
    write_alternating(world, "t", 40)
    with trio.move_on_after(100):
        await world.cleaner().run()
    assert len(offsets(world, "t")) == 40


async def test_old_segments_go_and_their_files_follow(world: World) -> None:
    world.create("t", configs={**SMALL, "retention.ms": "1000", "file.delete.delay.ms": "500"})
    write_alternating(world, "t", 40)
    retention = world.retention()
    assert await retention.delete_old_segments() == 0
    world.clock.advance(1001)
    deleted = await retention.delete_old_segments()
    partition = world.partition("t")
    assert (partition.log.log_start_offset, partition.log.size_bytes) == (40, 0)
    assert world.counters.cleaning.deleted_segments == deleted > 4
    files = len(list(partition.log.directory.glob("*.deleted")))
    world.clock.advance(499)
    await retention.remove_files()
    assert len(list(partition.log.directory.glob("*.deleted"))) == files
    world.clock.advance(1)
    await retention.remove_files()
    assert not list(partition.log.directory.glob("*.deleted"))
    write_alternating(world, "t", 1)
    assert offsets(world, "t") == [40]


async def test_logs_unused_since_the_start_are_checked_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.flusher.immediate = True
    world.create("t", configs={**SMALL, "retention.ms": "1000"})
    write_alternating(world, "t", 40)
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    again.flusher.immediate = True
    again.clock.advance(5000)
    assert await again.retention().delete_old_segments() > 4


async def test_logs_unused_since_the_start_are_compacted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.flusher.immediate = True
    world.create("t", configs=COMPACTED)
    world.create("kept", configs={"retention.ms": "-1"})
    write_alternating(world, "t", 40)
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    again.flusher.immediate = True
    cleaner = again.cleaner()
    assert not await cleaner.clean_dirtiest()
    assert await again.retention().delete_old_segments() == 0
    assert not again.table.opening.unopened
    assert await cleaner.clean_dirtiest()
    assert len(offsets(again, "t")) < 40


async def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    world = World(tmp_path, producer_id_expiration_ms=1000)
    world.flusher.immediate = True
    world.create("t")
    partition = world.partition("t")
    for producer_id in (1, 2):
        batch = batch_of(
            b"v",
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            timestamp_ms=world.clock.now_ms(),
        )
        append_produced(partition, batch, world.clock.now_ms())
        world.flusher.request(partition, lambda _: None)
        world.clock.advance(600)
    retention = world.retention()
    assert await retention.expire_producers() == 1
    assert [producer_id for producer_id, _ in partition.log.producers.items()] == [2]
    assert world.counters.cleaning.expired_producers == 1


def test_a_throttler_keeps_its_rate_and_can_be_stopped() -> None:
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 3:
            raise StorageError("enough")

    throttler = Throttler(1_000_000, check)
    with pytest.raises(StorageError, match="enough"):
        throttler(10_000_000)
