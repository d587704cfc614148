"""Settings that become laxer and stricter: what was written under the laxer ones is synced, or noted."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.test_flusher_durability import World as Flushing
from kohort.broker.partitions.test_support import World
from kohort.broker.partitions.unsynced import Unsynced
from kohort.storage import StorageError

LAX = {"flush.messages": "1000"}


class Folder:
    """What the data folder says, and whether the disk takes that."""

    def __init__(self) -> None:
        self.said: list[bool] = []
        self.is_full = False
        self.failures = 0
        self.unsynced = Unsynced(self.note, self.note_failed)

    def note_failed(self) -> None:
        self.failures += 1

    def note(self, has_unsynced: bool) -> None:
        if self.is_full:
            raise StorageError("no space left on device")
        self.said.append(has_unsynced)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def watched(world: World) -> Folder:
    """Return what a folder says that others have partitions of."""
    folder = Folder()
    world.table.assignment._unsynced = world.table.reopening._unsynced = folder.unsynced
    world.flusher.may_leave_unsynced = folder.unsynced.may_leave
    return folder


def filled(world: World, name: str, *, replicated: bool = True) -> Partition:
    """Return a partition with a record under its settings."""
    world.create(name, configs=LAX)
    partition = world.partition(name)
    world.stage(name)
    if replicated:
        partition.stand_by()
    world.flusher.request(partition, lambda error: None)
    world.flusher.flush()
    return partition


def is_synced(partition: Partition) -> bool:
    return partition.log.synced_offset == partition.log.log_end_offset


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}], ids=["override removed", "override set"])
def test_a_topic_that_becomes_strict_is_synced(world: World, configs: dict[str, str]) -> None:
    folder, partition = watched(world), filled(world, "t")
    assert not is_synced(partition)
    assert folder.said == [True]
    world.configure("t", configs)
    world.flusher.flush()
    assert is_synced(partition)
    assert folder.said == [True, False]


def test_topics_are_synced_when_the_default_becomes_strict(tmp_path: Path) -> None:
    world = World(tmp_path, log_flush_interval_messages=1000)
    world.create("t")
    world.create("u", configs={"flush.messages": "500"})
    for name in ("t", "u"):
        world.fill(name)
    world.current.config = World(tmp_path / "other").config
    for name in ("t", "u"):
        world.configure(name, world.metadata.snapshot().topics[name].configs)
    world.flusher.flush()
    assert is_synced(world.partition("t"))
    assert not is_synced(world.partition("u"))


def test_a_topic_that_is_to_be_synced_more_often_is_synced_where_that_is_due(world: World) -> None:
    partition = filled(world, "t", replicated=False)
    world.fill("t", batches=4)
    world.configure("t", {"flush.messages": "6"})
    world.flusher.flush()
    assert not is_synced(partition)
    world.configure("t", {"flush.messages": "5"})
    world.flusher.flush()
    assert is_synced(partition)


def test_the_folder_notes_unsynced_data_once_and_its_end_once(world: World) -> None:
    folder = watched(world)
    first, second = filled(world, "t"), filled(world, "u")
    filled(world, "alone", replicated=False)
    world.configure("t", {})
    world.flusher.flush()
    assert folder.said == [True]
    world.configure("u", {})
    world.flusher.flush()
    assert folder.said == [True, False]
    assert is_synced(first)
    assert is_synced(second)


def test_if_the_note_cannot_be_written_new_batches_are_synced(world: World) -> None:
    folder = watched(world)
    folder.is_full = True
    partition = filled(world, "t")
    assert is_synced(partition)
    assert folder.said == []


def test_a_deleted_topic_leaves_nothing_unsynced(world: World) -> None:
    folder = watched(world)
    filled(world, "t")
    world.delete("t")
    assert folder.said == [True, False]


def test_a_partition_that_others_are_to_have_is_noted_then(world: World) -> None:
    folder = watched(world)
    partition = filled(world, "t", replicated=False)
    assert folder.said == []
    partition.stand_by()
    assert folder.unsynced.became_replicated(partition)
    assert folder.said == [True]


def test_a_partition_without_a_note_tries_again_at_its_next_write() -> None:
    flushing, folder = Flushing(), Folder()
    partition = flushing.partition("t", **LAX)
    assert folder.unsynced.may_leave(partition)
    partition.stand_by()
    folder.is_full = True
    assert not folder.unsynced.became_replicated(partition)
    assert not folder.unsynced.may_leave(partition)
    folder.is_full = False
    assert folder.unsynced.may_leave(partition)
    assert folder.said == [True]


def test_a_topic_that_becomes_lax_again_before_its_sync_stays_noted(world: World) -> None:
    folder = watched(world)
    filled(world, "t")
    world.configure("t", {})
    world.configure("t", LAX)
    world.flusher.flush()
    assert folder.said == [True]


def test_a_topic_that_becomes_strict_does_not_lower_its_replicated_end() -> None:
    flushing = Flushing()
    partition = flushing.partition("t", **LAX)
    flushing.produced(partition, b"one", b"two")
    partition.lead(cast(Any, SimpleNamespace(high_watermark=partition.high_watermark)))
    flushing.configure(partition, 1)
    assert partition.log.flushed_offset == 0
    assert partition._told_offset == 2
    flushing.produce(partition, b"staged, and told to nobody")
    assert partition._told_offset == 2


@pytest.mark.parametrize("replicated", [True, False])
def test_a_log_that_fails_with_something_unsynced_is_noted_where_others_have_it(
    world: World, replicated: bool
) -> None:
    folder, partition = watched(world), filled(world, "t", replicated=replicated)
    world.create("strict")
    strict = world.partition("strict")
    world.fill("strict")
    for each in (strict, partition):
        each.failed(StorageError(f"{each} cannot be read"))
        world.run_posted()
    assert folder.failures == replicated
