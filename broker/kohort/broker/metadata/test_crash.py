"""The metadata file when the process or the machine dies behind any one operation on the disk."""

import random
from pathlib import Path

import pytest

from kohort.broker.metadata import EmbeddedMetadataStore, Mutation, Snapshot, TopicState
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from kohort.storage import FileSystem, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem

FOLDER = Path("/data")
CHANGES = 12


def opened(filesystem: FileSystem) -> EmbeddedMetadataStore:
    return EmbeddedMetadataStore.open(filesystem, FOLDER, cluster_id="c", node_id=1)


def mutation(snapshot: Snapshot, number: int) -> Mutation:
    """Return a change that puts a topic, and every third time takes one away."""
    topic = TopicState(f"t{number}", random_topic_id(), partitions_of([(1,)] * (number + 1)))
    delete = tuple(snapshot.topics)[:1] if number % 3 == 2 else ()
    return Mutation(put=(topic,), delete=delete)


class History:
    """A used store, and the acknowledged changes by the number of operations on the disk."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem()
        self.filesystem.make_directory(FOLDER)
        self.filesystem.sync_directory(FOLDER)
        self.begun = len(self.filesystem.operations)
        self.acknowledged: list[tuple[int, dict[str, TopicState], int]] = [(self.begun, {}, 0)]

    async def run(self) -> "History":
        store = opened(self.filesystem)
        producer_ids = 0
        for number in range(CHANGES):
            snapshot = await store.change(store.snapshot(), mutation(store.snapshot(), number))
            self._note(snapshot, producer_ids)
            producer_ids = (await store.allocate_producer_ids(100)).stop
            self._note(snapshot, producer_ids)
        return self

    def _note(self, snapshot: Snapshot, producer_ids: int) -> None:
        self.acknowledged.append((len(self.filesystem.operations), dict(snapshot.topics), producer_ids))

    async def check(self, survivor: FileSystem, count: int) -> None:
        """Assert that all changes acknowledged by then are there, and at most the next one more."""
        last = max(place for place, (end, _, _) in enumerate(self.acknowledged) if end <= count)
        possible = self.acknowledged[last : last + 2]
        store = opened(survivor)
        assert dict(store.snapshot().topics) in [topics for _, topics, _ in possible]
        first = (await store.allocate_producer_ids()).start
        assert first in [producer_ids for _, _, producer_ids in possible]


async def test_a_process_that_dies_at_any_operation_loses_nothing_acknowledged() -> None:
    history = await History().run()
    for count in range(history.begun, len(history.filesystem.operations) + 1):
        await history.check(history.filesystem.after_crash(count), count)


@pytest.mark.parametrize("seed", range(20))
async def test_a_machine_that_dies_at_any_operation_loses_nothing_acknowledged(seed: int) -> None:
    history = await History().run()
    choose = random.Random(seed).randrange
    for count in range(history.begun, len(history.filesystem.operations) + 1):
        await history.check(history.filesystem.after_crash(count, choose), count)


@pytest.mark.parametrize("seed", range(20))
async def test_a_sync_that_fails_is_an_error_and_never_half_a_file(seed: int) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(FOLDER)
    filesystem.sync_directory(FOLDER)
    store = opened(filesystem)
    before = await store.change(store.snapshot(), mutation(store.snapshot(), 0))
    filesystem.syncs_until_failure = 0
    with pytest.raises(StorageError):
        await store.change(before, mutation(before, 1))
    assert store.snapshot() is before
    survivor = filesystem.after_crash(choose=random.Random(seed).randrange)
    assert dict(opened(survivor).snapshot().topics) == before.topics
    after = await store.change(before, mutation(before, 2))
    survivor = filesystem.after_crash(choose=random.Random(seed).randrange)
    assert dict(opened(survivor).snapshot().topics) == after.topics


async def test_a_full_disk_is_an_error_until_it_has_space_again() -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(FOLDER)
    store = opened(filesystem)
    filesystem.room_bytes = 50
    with pytest.raises(StorageError, match="No space left"):
        await store.change(store.snapshot(), mutation(store.snapshot(), 0))
    assert not opened(filesystem.after_crash()).snapshot().topics
    filesystem.room_bytes = None
    await store.change(store.snapshot(), mutation(store.snapshot(), 0))
    assert list(opened(filesystem.after_crash()).snapshot().topics) == ["t0"]
