"""The files of deleted partitions: each deletion is separate, even if two have the same name."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from kohort.broker.partitions import Partition
from kohort.broker.partitions.host import NameTaken
from kohort.broker.partitions.test_support import World
from kohort.storage import StorageError
from kohort.storage.layout import PARTITION_METADATA


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create("t")
    world.fill("t")
    return world


def like(world: World, partition: Partition, *, is_new_topic: bool) -> Partition:
    """Return a partition of that name: the same one that has come back, or that of a newer topic."""
    return Partition(
        partition.topic,
        uuid4() if is_new_topic else partition.topic_id,
        partition.index,
        leader_epoch=0,
        config=partition.config,
        host=world.table.opening,
    )


def folders(world: World) -> list[str]:
    return sorted(each.name for each in world.data.path.iterdir() if each.name.startswith("t-"))


@pytest.mark.parametrize("is_new_topic", [True, False])
def test_a_folder_name_is_in_use_until_its_last_deletion_is_done(world: World, is_new_topic: bool) -> None:
    first = world.partition("t")
    second, third = (like(world, first, is_new_topic=is_new_topic) for _ in range(2))
    for each in (first, second):
        each.close()
        world.files.announce_deletion(each)
    for each in (first, second):
        with pytest.raises(NameTaken):
            world.files.open(third)
        world.files.delete(each)
    assert folders(world) == []
    assert world.files.open(third).log.log_end_offset == 0
    assert folders(world) == ["t-0"]


@pytest.mark.parametrize("is_new_topic", [True, False])
@pytest.mark.parametrize("is_first_last", [True, False])
def test_files_to_be_set_aside_are_kept_although_others_of_their_name_are_deleted(
    world: World, is_new_topic: bool, is_first_last: bool
) -> None:
    first = world.partition("t")
    second = like(world, first, is_new_topic=is_new_topic)
    for each in (first, second):
        each.close()
        world.files.announce_deletion(each, is_kept=each is first)
    gone = (second, first) if is_first_last and is_new_topic else (first, second)
    for each in gone:
        world.files.delete(each)
    assert folders(world) == [f"t-0.{first.topic_id.hex}-stray"]


def test_files_are_deleted_although_those_of_a_newer_topic_are_set_aside(world: World) -> None:
    first = world.partition("t")
    second = like(world, first, is_new_topic=True)
    for each in (first, second):
        each.close()
        world.files.announce_deletion(each, is_kept=each is second)
    for each in (first, second):
        world.files.delete(each)
    assert folders(world) == []


def test_a_stop_puts_off_the_deletion_of_an_older_topic_of_the_name_as_well(
    world: World, tmp_path: Path
) -> None:
    world.delete("t")
    world.create("t")
    world.delete("t")  # Nothing has been flushed since, so that no file has gone yet.
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert folders(again) == []


def test_a_folder_name_is_free_after_a_deletion_that_found_files_of_a_newer_topic(world: World) -> None:
    first = world.partition("t")
    second = like(world, first, is_new_topic=True)
    second.close()
    world.files.announce_deletion(second)
    world.files.delete(second)
    assert folders(world) == ["t-0"]
    first.failed(StorageError("the disk"))
    assert world.files.open(first, again=True).log.log_end_offset == 1


def lose_id(world: World) -> None:
    """Take the topic id, which is not synced while the journal has all records, as a power failure does."""
    world.crash()
    (world.data.path / "t-0" / PARTITION_METADATA).write_bytes(b"")


def test_a_folder_of_a_deleted_topic_that_has_lost_its_id_is_not_that_of_a_newer_one(
    world: World, tmp_path: Path
) -> None:
    lose_id(world)
    world.delete("t")
    world.create("t")
    again = World(tmp_path, metadata=world.metadata)
    [stray] = folders(again)
    assert stray.endswith("-stray")
    assert again.partition("t").log.log_end_offset == 0


def test_a_folder_that_has_lost_its_id_is_set_aside_where_others_have_the_partition(
    world: World, tmp_path: Path
) -> None:
    lose_id(world)
    again = World(tmp_path, metadata=world.metadata, may_lead=lambda key, state: True)
    again.files.set_strays_aside(world.metadata.snapshot(), lambda key: False)
    [stray] = folders(again)
    assert stray.endswith("-stray")


def test_a_short_log_is_not_forgotten_if_a_whole_one_is_opened_at_the_same_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_missing(_topic: str, _index: int) -> bool:
        world.files.is_short = True  # Another thread has opened a log that lacks records.
        return False

    monkeypatch.setattr(world.data.records, "is_missing", is_missing)
    world.create("whole")
    world.partition("whole")
    assert world.files.is_short
