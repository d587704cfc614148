"""Leader epochs: raised for those that this node leads, durable, and nothing else changes."""

from pathlib import Path
from uuid import UUID

from kohort.broker.metadata import EmbeddedMetadataStore, Mutation, PartitionState, TopicState
from kohort.broker.metadata.leader_epochs import EPOCHS_SKIPPED, raise_above, raise_leader_epochs
from kohort.storage.memory_filesystem import MemoryFileSystem

ROOT = Path("/data")
HERE, ELSEWHERE = 1, 2


def opened(disk: MemoryFileSystem) -> EmbeddedMetadataStore:
    return EmbeddedMetadataStore.open(disk, ROOT, cluster_id="cluster", node_id=HERE)


def topic(name: str, *leaders: int) -> TopicState:
    places = tuple(
        PartitionState(index, leader, 4, (leader,), (leader,), 7) for index, leader in enumerate(leaders)
    )
    return TopicState(name, UUID(int=len(name)), places)


def epochs(store: EmbeddedMetadataStore, name: str) -> list[tuple[int, int]]:
    return [(each.leader_epoch, each.partition_epoch) for each in store.snapshot().topics[name].partitions]


async def test_partitions_that_this_node_leads_get_the_next_epoch_and_keep_it() -> None:
    disk = MemoryFileSystem()
    disk.make_directory(ROOT)
    store = opened(disk)
    await store.change(
        store.snapshot(), Mutation(put=(topic("mixed", HERE, ELSEWHERE), topic("other", ELSEWHERE)))
    )
    await raise_leader_epochs(store, HERE, lambda topic_id, index: True)
    again = opened(disk.after_crash(choose=lambda _: 0))
    assert epochs(again, "mixed") == [(5, 8), (4, 7)]
    assert epochs(again, "other") == [(4, 7)]


async def test_the_epoch_of_one_partition_can_be_raised() -> None:
    disk = MemoryFileSystem()
    disk.make_directory(ROOT)
    store = opened(disk)
    await store.change(store.snapshot(), Mutation(put=(topic("t", HERE, HERE),)))
    await raise_leader_epochs(store, HERE, lambda topic_id, index: index == 1)
    assert epochs(store, "t") == [(4, 7), (5, 8)]


async def test_without_led_partitions_nothing_changes() -> None:
    disk = MemoryFileSystem()
    disk.make_directory(ROOT)
    store = opened(disk)
    before = store.snapshot().version
    assert (await raise_leader_epochs(store, HERE, lambda topic_id, index: True)).version == before


async def test_a_known_epoch_is_never_used_again() -> None:
    disk = MemoryFileSystem()
    disk.make_directory(ROOT)
    store = opened(disk)
    made = topic("t", HERE, HERE, ELSEWHERE, HERE)
    await store.change(store.snapshot(), Mutation(put=(made,)))
    known = {(made.topic_id, 0): 3, (made.topic_id, 1): 4, (made.topic_id, 2): 9, (UUID(int=77), 0): 9}
    await raise_above(store, known)
    stepped_back = 9 + EPOCHS_SKIPPED
    assert epochs(store, "t") == [(4, 7), (5, 8), (stepped_back, 8), (4, 7)]
    version = store.snapshot().version
    assert (await raise_above(store, known)).version == version
    assert epochs(opened(disk.after_crash(choose=lambda _: 0)), "t") == epochs(store, "t")
