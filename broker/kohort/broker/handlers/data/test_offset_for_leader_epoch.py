from pathlib import Path

import pytest

from kohort.broker.handlers.data import offset_for_leader_epoch
from kohort.broker.partitions.test_support import World
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create("t", epoch=3)
    world.fill("t", batches=2)
    partition = world.partition("t")
    partition.leader_epoch = 5
    world.fill("t", batches=1)
    return world


def ask(
    world: World, epoch: int, *, topic: str = "t", current: int = -1
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    message = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),))
    request = world.request("OffsetForLeaderEpoch")
    return offset_for_leader_epoch.handle(world.family, message, request).topics[0].partitions[0]


@pytest.mark.parametrize("epoch, ends", [(3, (3, 2)), (4, (3, 2)), (5, (5, 3)), (6, (-1, -1))])
def test_an_epoch_ends_where_the_next_starts(world: World, epoch: int, ends: tuple[int, int]) -> None:
    answer = ask(world, epoch)
    assert (answer.error_code, (answer.leader_epoch, answer.end_offset)) == (0, ends)


def test_errors_of_a_partition(world: World) -> None:
    assert ask(world, 3, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(world, 3, current=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(world, 3, current=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
