from pathlib import Path

import pytest
import trio
import trio.testing

from kohort.broker.controller import LiveBroker
from kohort.broker.handlers.data import delete_records
from kohort.broker.metadata import PartitionState
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.replica_log import ReplicaLog
from kohort.broker.partitions.test_support import World
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.broker.replication import FetchFrom, Leadership, ReplicaFetch
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.storage import StorageError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return immediate(World(tmp_path))


def immediate(world: World) -> World:
    """Give every waiter of a flush its result at once."""
    world.flusher.immediate = True
    return world


async def ask(world: World, offset: int, *, topic: str = "t", timeout_ms: int = 1_000) -> tuple[int, int]:
    """Return the error code and the low watermark."""
    partitions = (DeleteRecordsPartition(partition_index=0, offset=offset),)
    message = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=timeout_ms
    )
    answer = await delete_records.handle(world.family, message, world.request("DeleteRecords"))
    result = answer.topics[0].partitions[0]
    return result.error_code, result.low_watermark


async def test_the_log_starts_at_the_given_offset(world: World) -> None:
    world.create("t")
    world.fill("t", batches=5)
    assert await ask(world, 3) == (0, 3)
    assert world.partition("t").log.log_start_offset == 3


async def test_the_log_start_never_moves_back(world: World) -> None:
    world.create("t")
    world.fill("t", batches=5)
    await ask(world, 3)
    assert await ask(world, 1) == (0, 3)


async def test_everything_committed_can_go(world: World) -> None:
    world.create("t")
    world.fill("t", batches=5)
    world.stage("t")
    assert await ask(world, -1) == (0, 5)


@pytest.mark.parametrize("offset", [-2, 6])
async def test_an_offset_beyond_the_high_watermark_is_out_of_range(world: World, offset: int) -> None:
    world.create("t")
    world.fill("t", batches=5)
    world.stage("t")
    assert await ask(world, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_new_start_outlives_a_crash(tmp_path: Path) -> None:
    world = immediate(World(tmp_path))
    world.create("t")
    world.fill("t", batches=5)
    await ask(world, 3)
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    log = again.partition("t").log
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)


async def test_records_of_compacted_and_internal_topics_cannot_be_deleted(world: World) -> None:
    world.create("compacted", configs={"cleanup.policy": "compact"})
    world.create("__consumer_offsets")
    assert await ask(world, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert await ask(world, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert await ask(world, 0, topic="unknown") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_offline_partition_is_a_storage_error(world: World) -> None:
    world.create("t")
    world.partition("t").failed(StorageError("the disk is gone"))
    assert await ask(world, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_a_log_that_was_reopened_during_the_deletion_is_not_touched(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=5)
    partition = world.partition("t")
    answers: list[tuple[int, int]] = []

    async def delete() -> None:
        answers.append(await ask(world, 3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(delete)
        await trio.testing.wait_all_tasks_blocked()
        partition.failed(StorageError("the disk hiccups"))
        opened = world.data.open_log("t", partition.topic_id, 0, log_config_of(partition.config))
        partition.reopened(OpenedLog(opened))
        world.flusher.flush()
    assert answers == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert partition.error_code is None, "the log that serves now has done nothing wrong"
    assert partition.log.log_start_offset == 0


# -- on several brokers -----------------------------------------------------------------------------------


class Led(World):
    """A partition that broker 1 leads, and whose followers are asked for by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.flusher.immediate = True
        self.create("t")
        self.fill("t", batches=5)
        here = self.partition("t")
        state = PartitionState(0, 1, here.leader_epoch, (1, 2, 3, 4), (1, 2), 9)
        self.leadership = Leadership(
            1,
            state,
            ReplicaLog(here, here.log),
            high_watermark=5,
            min_insync_replicas=1,
            lag_ms_max=30_000,
            now_ms=0,
        )
        here.lead(self.leadership)
        self.live(2, 3)

    def live(self, *nodes: int) -> None:
        """Let these brokers live beside this one, and no others."""
        brokers = {each: LiveBroker(each, 10 * each) for each in (1, *nodes)}
        self.leadership.brokers_changed(brokers)
        self.partition("t").start_waits.wake(self.partition("t"))

    def begins(self, node_id: int, log_start_offset: int) -> None:
        """Let a follower fetch that has everything, and whose log begins there."""
        partition = self.partition("t")
        at = FetchFrom(5, -1, partition.leader_epoch, log_start_offset)
        self.leadership.handle_fetch(ReplicaFetch(node_id, 10 * node_id, at), 0)
        partition.start_waits.wake(partition)

    async def asked(self, offset: int, nursery: trio.Nursery) -> list[tuple[int, int]]:
        """Ask, and return where the answer will be, once nothing goes on by itself."""
        answers: list[tuple[int, int]] = []

        async def delete() -> None:
            answers.append(await ask(self, offset, timeout_ms=60_000))

        nursery.start_soon(delete)
        await settled()
        return answers


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)


async def test_a_deletion_waits_for_all_live_and_in_sync_replicas(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.live(3)  # 2 is gone, and in sync as yet; 4 is gone.
    for node_id in (2, 3):
        led.begins(node_id, 0)
    async with trio.open_nursery() as nursery:
        answers = await led.asked(3, nursery)
        for node_id in (2, 3):
            assert answers == []
            led.begins(node_id, 3)
            await settled()
    assert answers == [(0, 3)]
    assert await ask(led, 2) == (0, 3), "which it is already"


async def test_a_deletion_stops_waiting_for_a_replica_that_no_longer_counts(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.begins(2, 3)
    led.begins(3, 1)
    async with trio.open_nursery() as nursery:
        answers = await led.asked(3, nursery)
        assert answers == []
        led.live(2)
    assert answers == [(0, 3)]


async def test_a_replica_that_does_not_follow_in_time_causes_a_timeout(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.begins(2, 3)
    led.begins(3, 1)
    for offset in (3, 2):  # The second is where the leader's log begins already.
        assert await ask(led, offset, timeout_ms=1) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert await ask(led, 1, timeout_ms=0) == (0, 1)


@pytest.mark.parametrize("is_elected_again", [True, False])
async def test_a_former_leader_answers_not_leader(tmp_path: Path, is_elected_again: bool) -> None:
    led = Led(tmp_path)
    async with trio.open_nursery() as nursery:
        answers = await led.asked(3, nursery)
        assert answers == []
        if is_elected_again:
            led.partition("t").lead(Led(tmp_path / "other").leadership)
        else:
            led.partition("t").stand_by()
    assert answers == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
