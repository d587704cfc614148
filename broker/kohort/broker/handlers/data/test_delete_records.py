from pathlib import Path

import pytest
import trio
import trio.testing

from kohort.broker.handlers.data import delete_records
from kohort.broker.partitions.test_support import World
from kohort.broker.partitions.topic_settings import log_config_of
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.storage import StorageError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return immediate(World(tmp_path))


def immediate(world: World) -> World:
    """Let whoever waits for a flush have it at once."""
    world.flusher.immediate = True
    return world


async def ask(world: World, offset: int, *, topic: str = "t") -> tuple[int, int]:
    """Return the error code and the low watermark."""
    partitions = (DeleteRecordsPartition(partition_index=0, offset=offset),)
    message = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=1000
    )
    answer = await delete_records.handle(world.family, message, world.request("DeleteRecords"))
    result = answer.topics[0].partitions[0]
    return result.error_code, result.low_watermark


async def test_log_begins_at_the_offset(world: World) -> None:
    world.create("t")
    world.fill("t", batches=5)
    assert await ask(world, 3) == (0, 3)
    assert world.partition("t").log.log_start_offset == 3


async def test_start_never_moves_back(world: World) -> None:
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
async def test_offset_beyond_the_high_watermark_is_out_of_range(world: World, offset: int) -> None:
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


async def test_what_may_not_be_deleted(world: World) -> None:
    world.create("compacted", configs={"cleanup.policy": "compact"})
    world.create("__consumer_offsets")
    assert await ask(world, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert await ask(world, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert await ask(world, 0, topic="unknown") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_offline_partition_is_a_storage_error(world: World) -> None:
    world.create("t")
    world.partition("t").failed(StorageError("the disk is gone"))
    assert await ask(world, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_a_log_that_was_opened_anew_meanwhile_is_left_alone(tmp_path: Path) -> None:
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
        partition.reopened(world.data.open_log("t", partition.topic_id, 0, log_config_of(partition.config)))
        world.flusher.flush()
    assert answers == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert partition.error_code is None, "the log that serves now has done nothing wrong"
    assert partition.log.log_start_offset == 0
