"""What readers of committed records get while transactions are open, and when they have ended."""

from pathlib import Path

import pytest

from kohort.broker.handlers.data import fetch, list_offsets
from kohort.broker.handlers.data.list_offsets import LATEST
from kohort.broker.handlers.data.test_fetch import message, offsets, partitions, sent
from kohort.broker.partitions import Partition
from kohort.broker.partitions.markers import append_marker
from kohort.broker.partitions.test_support import World, append_produced
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.fetch import FetchResponse, PartitionData
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.records import ControlType, build_batch
from kohort.storage import StorageError

COMMITTED, UNCOMMITTED = 1, 0


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create("t")
    return world


def flush(world: World, partition: Partition) -> None:
    def flushed(error: StorageError | None) -> None:
        assert error is None

    world.flusher.request(partition, flushed)
    world.flusher.flush()


def write(
    world: World, producer_id: int, sequence: int = 0, *, epoch: int = 0, transactional: bool = True
) -> int:
    partition = world.partition("t")
    batch = build_batch(
        [(1, None, b"v", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    offset = append_produced(partition, batch, world.clock.now_ms()).base_offset
    flush(world, partition)
    return offset


def end(world: World, producer_id: int, kind: ControlType, *, epoch: int = 0, flushed: bool = True) -> int:
    partition = world.partition("t")
    offset = append_marker(partition, kind, producer_id, epoch, coordinator_epoch=0, now_ms=1)
    if flushed:
        flush(world, partition)
    return offset


def read(world: World, offset: int, isolation_level: int = COMMITTED) -> PartitionData:
    asked = message({0: offset}, isolation_level=isolation_level, max_wait_ms=0)
    answer = fetch.handle(world.family, asked, world.request("Fetch", 12))
    assert isinstance(answer, FetchResponse)
    (data,) = partitions(answer)
    return data


def end_offset(world: World, isolation_level: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    topics = (ListOffsetsTopic(name="t", partitions=(asked,)),)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    answer = list_offsets.handle(world.family, request, world.request("ListOffsets", 11))
    return answer.topics[0].partitions[0].offset


def test_records_of_an_open_transaction_are_only_for_uncommitted_readers(world: World) -> None:
    write(world, 4, transactional=False)
    write(world, 5)
    write(world, 6, transactional=False)
    data = read(world, 0)
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([0], 3, 1)
    assert offsets(read(world, 0, UNCOMMITTED)) == [0, 1, 2]
    assert offsets(read(world, 1)) == []
    assert (end_offset(world, COMMITTED), end_offset(world, UNCOMMITTED)) == (1, 3)


def test_a_waiting_reader_is_woken_by_a_commit(world: World) -> None:
    write(world, 5)
    asked = message({0: 0}, isolation_level=COMMITTED, max_wait_ms=500)
    assert fetch.handle(world.family, asked, world.request("Fetch", 12)) is None
    write(world, 5, 1)
    assert world.connection.answers == []
    end(world, 5, ControlType.COMMIT)
    (data,) = partitions(sent(world))
    assert (data.last_stable_offset, data.aborted_transactions) == (3, ())
    assert offsets(data) == [0, 1, 2]


def test_aborted_transactions_are_listed_with_their_first_offsets(world: World) -> None:
    write(world, 5)
    write(world, 6)
    end(world, 6, ControlType.ABORT)
    end(world, 5, ControlType.ABORT)
    write(world, 7)
    end(world, 7, ControlType.COMMIT)
    data = read(world, 0)
    assert data.aborted_transactions is not None
    told = [(each.producer_id, each.first_offset) for each in data.aborted_transactions]
    assert told == [(5, 0), (6, 1)]
    assert read(world, 0, UNCOMMITTED).aborted_transactions is None


def test_a_marker_that_is_not_on_the_disk_ends_nothing_yet(world: World) -> None:
    write(world, 5)
    end(world, 5, ControlType.COMMIT, flushed=False)
    assert offsets(read(world, 0)) == []
    flush(world, world.partition("t"))
    assert offsets(read(world, 0)) == [0, 1]


def test_a_fenced_producer_writes_nothing_after_the_marker(world: World) -> None:
    write(world, 5)
    end(world, 5, ControlType.ABORT, epoch=1)
    with pytest.raises(ApiError) as caught:
        write(world, 5, 1)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(world, 5, 0, epoch=1) == 2


def test_markers_of_old_epochs_and_of_old_coordinators_change_nothing(world: World) -> None:
    write(world, 5, epoch=2)
    for epoch, coordinator_epoch, code in (
        (1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, -2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ApiError) as caught:
            append_marker(
                world.partition("t"),
                ControlType.COMMIT,
                5,
                epoch,
                coordinator_epoch=coordinator_epoch,
                now_ms=1,
            )
        assert caught.value.code is code
    assert end_offset(world, COMMITTED) == 0
