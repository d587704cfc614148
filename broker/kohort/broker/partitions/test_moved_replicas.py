"""A replica that is moved away and back, and what a crash or a failure in between leaves of it."""

from pathlib import Path

import msgspec

from kohort.broker.metadata import Mutation
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import NODE_ID, World
from kohort.storage import DataDirectory, LogConfig, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem

ROOT = Path("/data")
OTHER = 2


def move(world: World, name: str, *replicas: int) -> None:
    """Have the partition on these brokers; this one leads it where it is one of them."""
    topic = world.metadata.snapshot().topics[name]
    leader = NODE_ID if NODE_ID in replicas else replicas[0]
    state = msgspec.structs.replace(topic.partitions[0], leader=leader, replicas=replicas, isr=replicas)
    world.metadata.apply(Mutation(put=(msgspec.structs.replace(topic, partitions=(state,)),)))


def world_of_several(disk: MemoryFileSystem, before: World | None = None) -> World:
    return World(ROOT, disk, None if before is None else before.metadata, lambda key, state: True)


def finish(world: World) -> None:
    for _ in range(3):
        world.flusher.flush()
        world.run_posted()


def filled(world: World) -> Partition:
    world.create("t")
    finish(world)
    world.fill("t", batches=3)
    return world.partition("t")


def test_a_replica_that_returns_is_empty_and_stays() -> None:
    world = world_of_several(MemoryFileSystem())
    filled(world)
    move(world, "t", OTHER)
    finish(world)
    move(world, "t", NODE_ID)
    finish(world)
    world.fill("t")
    assert world.partition("t").log.log_end_offset == 1
    disk = world.filesystem
    assert isinstance(disk, MemoryFileSystem)
    again = world_of_several(disk.after_crash(choose=lambda _: 0), world)
    again.journal.restore(again.partition("t").log)
    assert again.partition("t").log.log_end_offset == 1


def test_a_reopening_of_the_old_replica_does_not_delete_files_of_the_returned_one() -> None:
    world = world_of_several(MemoryFileSystem())
    before = filled(world)
    before.failed(StorageError("t-0 cannot be read"))
    world.run_posted()
    world.flusher.flush()
    world.advance(10_000)
    world.finish_file_work()  # The log is opened again,
    move(world, "t", OTHER)  # and is removed before the loop hears that it is.
    world.flusher.flush()
    move(world, "t", NODE_ID)
    finish(world)
    after = world.partition("t")
    assert after is not before
    world.fill("t")
    finish(world)
    assert after.offline is None
    assert world.data.records.log("t", 0) is not None
    assert world.filesystem.list_directory(ROOT / "t-0")


def test_a_folder_left_by_a_crash_of_a_moved_replica_does_not_block_a_newer_topic() -> None:
    world = world_of_several(MemoryFileSystem())
    filled(world)
    move(world, "t", OTHER)
    disk = world.filesystem
    assert isinstance(disk, MemoryFileSystem)
    again = world_of_several(disk.after_crash(), world)  # Before the files are deleted.
    assert again.table.peek("t", 0) is None
    again.delete("t")
    again.create("t")
    finish(again)
    again.fill("t")
    assert again.partition("t").log.log_end_offset == 1


def test_the_owner_of_a_folder_is_known_after_an_unclean_start_and_a_power_failure() -> None:
    disk = MemoryFileSystem()
    world = World(ROOT, disk)
    topic_id = world.create("t", configs={"flush.messages": "1000"})
    world.fill("t", batches=2)
    killed = MemoryFileSystem()
    for operation in disk.operations:
        killed.note(operation)
    found = DataDirectory.open(ROOT, killed)
    assert found.open_log("t", topic_id, 0, LogConfig()).log_end_offset == 2
    after_power_failure = DataDirectory.open(ROOT, killed.after_crash(choose=lambda _: 0))
    assert [each.topic_id for each in after_power_failure.partitions()] == [topic_id]
    assert after_power_failure.open_log("t", topic_id, 0, LogConfig()).log_end_offset == 2


def test_the_owner_of_a_folder_is_known_after_a_truncation_and_a_power_failure() -> None:
    disk = MemoryFileSystem()
    world = World(ROOT, disk)
    topic_id = world.create("t", configs={"flush.messages": "1000"})
    world.fill("t", batches=3)
    world.partition("t").log.truncate_to(2)
    found = DataDirectory.open(ROOT, disk.after_crash(choose=lambda _: 0))
    assert [each.topic_id for each in found.partitions()] == [topic_id]
    assert found.open_log("t", topic_id, 0, LogConfig()).log_end_offset == 2
