"""Leader epochs of partitions that lost their ends: raised together, and in the end all of them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
import trio

from kohort.broker.metadata import Mutation, PartitionState, Snapshot, TopicState
from kohort.broker.partitions import Partition
from kohort.broker.partitions.raising_epochs import RaisingEpochs
from kohort.broker.partitions.test_support import NODE_ID, FakeMetadata
from kohort.broker.runtime.workers import TrioWorkers
from kohort.storage import StorageError

PARTITIONS = 500
TOPIC_ID = UUID(int=7)


class SlowMetadata(FakeMetadata):
    """Takes a moment for each change; the first `failing` ones do not come about."""

    def __init__(self, failing: int = 0) -> None:
        super().__init__()
        self.changes = 0
        self._failing = failing
        places = tuple(
            PartitionState(index, NODE_ID, 0, (NODE_ID,), (NODE_ID,)) for index in range(PARTITIONS)
        )
        self.apply(Mutation(put=(TopicState("t", TOPIC_ID, places),)))

    async def change(self, basis: Snapshot, mutation: Mutation, *, controller_epoch: int = 0) -> Snapshot:
        await trio.sleep(0.01)
        self.changes += 1
        if self.changes <= self._failing:
            raise StorageError("the disk is full")
        self.apply(mutation)
        return self.snapshot()

    def epochs(self) -> list[int]:
        return [each.leader_epoch for each in self.snapshot().topics["t"].partitions]


class LostPartition:
    """What of a partition matters here."""

    def __init__(self, index: int, *, deleted: bool = False) -> None:
        self.topic = "t"
        self.topic_id = TOPIC_ID
        self.index = index
        self.deleted = deleted
        self.leader_epoch = 0


async def raised(metadata: SlowMetadata, partitions: list[LostPartition], gap_seconds: float = 0) -> None:
    """Request the epoch of each partition, and wait until all are done."""
    async with trio.open_nursery() as nursery:
        tails = RaisingEpochs(cast(Any, metadata), TrioWorkers(nursery))
        for each in partitions:
            tails.lost_tail(cast(Partition, each))
            await trio.sleep(gap_seconds)


async def test_all_waiting_epochs_are_raised_by_one_change(autojump_clock: trio.testing.MockClock) -> None:
    metadata = SlowMetadata()
    await raised(metadata, [LostPartition(index) for index in range(PARTITIONS)])
    assert metadata.epochs() == [1] * PARTITIONS
    assert metadata.changes <= 2


async def test_epochs_that_arrive_during_a_change_are_raised_by_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    metadata = SlowMetadata()
    await raised(metadata, [LostPartition(index) for index in range(100)], gap_seconds=0.001)
    assert metadata.epochs() == [1] * 100 + [0] * (PARTITIONS - 100)
    assert metadata.changes <= 12


async def test_a_change_that_fails_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    metadata = SlowMetadata(failing=3)
    await raised(metadata, [LostPartition(0), LostPartition(1, deleted=True)])
    assert metadata.epochs()[:2] == [1, 0]
    assert metadata.changes == 4


@pytest.mark.parametrize("failing", [0, 1])
async def test_deleted_ones_need_no_epoch(autojump_clock: trio.testing.MockClock, failing: int) -> None:
    metadata = SlowMetadata(failing)
    await raised(metadata, [LostPartition(0, deleted=True)])
    assert metadata.changes == 0


@pytest.mark.parametrize("later", [3, 5_000, 9_000])
async def test_the_highest_requested_epoch_is_exceeded_after_a_failed_change(
    autojump_clock: trio.testing.MockClock, later: int
) -> None:
    metadata, partition = SlowMetadata(failing=1), cast(Partition, LostPartition(0))
    async with trio.open_nursery() as nursery:
        raising = RaisingEpochs(cast(Any, metadata), TrioWorkers(nursery))
        raising.is_behind(partition, 5_000)
        await trio.sleep(0.005)  # The change that will fail is under way.
        raising.is_behind(partition, later)
    assert metadata.epochs()[0] > max(5_000, later)
