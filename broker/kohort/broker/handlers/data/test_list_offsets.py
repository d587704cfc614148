from pathlib import Path

import pytest

from kohort.broker.handlers.data import list_offsets
from kohort.broker.handlers.data.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kohort.broker.metadata import PartitionState
from kohort.broker.partitions.replica_log import ReplicaLog
from kohort.broker.partitions.test_support import World, append_produced, batch_of
from kohort.broker.replication import Leadership
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

NEWEST_VERSION = 11


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create("t", epoch=3)
    for timestamp_ms in (100, 300, 200):
        produce(world, timestamp_ms)
    return world


def produce(world: World, timestamp_ms: int, *, commit: bool = True) -> None:
    batch = batch_of(b"v", timestamp_ms=timestamp_ms)
    partition = world.partition("t")
    append_produced(partition, batch, world.clock.now_ms())
    if commit:
        world.flusher.request(partition, lambda error: None)
        world.flusher.flush()


def ask(
    world: World,
    timestamp: int,
    *,
    version: int = NEWEST_VERSION,
    topic: str = "t",
    leader_epoch: int = -1,
    times: int = 1,
    replica_id: int = -1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=leader_epoch)
    topics = (ListOffsetsTopic(name=topic, partitions=(asked,) * times),)
    message = ListOffsetsRequest(replica_id=replica_id, topics=topics)
    answer = list_offsets.handle(world.family, message, world.request("ListOffsets", version))
    answer.encode(version)
    return answer.topics[0].partitions[0]


def found(answer: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    assert answer.error_code == ErrorCode.NONE
    return answer.offset, answer.timestamp, answer.leader_epoch


def test_ends_of_the_log(world: World) -> None:
    assert found(ask(world, EARLIEST)) == (0, -1, 3)
    assert found(ask(world, EARLIEST_LOCAL)) == (0, -1, 3)
    assert found(ask(world, LATEST)) == (3, -1, 3)


def test_first_record_at_or_after_a_time(world: World) -> None:
    assert found(ask(world, 100)) == (0, 100, 3)
    assert found(ask(world, 101)) == (1, 300, 3)
    assert found(ask(world, 301)) == (-1, -1, -1)


def test_record_with_the_largest_timestamp(world: World) -> None:
    assert found(ask(world, MAX_TIMESTAMP)) == (1, 300, 3)


def test_empty_log_has_no_largest_timestamp(world: World) -> None:
    world.create("empty")
    assert found(ask(world, MAX_TIMESTAMP, topic="empty")) == (-1, -1, -1)


@pytest.mark.parametrize("timestamp", [LATEST_TIERED, EARLIEST_PENDING_UPLOAD])
def test_there_is_no_tiered_storage(world: World, timestamp: int) -> None:
    assert found(ask(world, timestamp)) == (-1, -1, -1)


@pytest.mark.parametrize(
    "timestamp, version",
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
def test_special_timestamps_need_their_version(world: World, timestamp: int, version: int) -> None:
    assert ask(world, timestamp, version=version).error_code == ErrorCode.NONE
    assert ask(world, timestamp, version=version - 1).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, NEWEST_VERSION + 1))
def test_every_version_is_answered(world: World, version: int) -> None:
    assert ask(world, LATEST, version=version).offset == 3


def test_uncommitted_records_are_not_listed(world: World) -> None:
    produce(world, 900, commit=False)
    assert ask(world, LATEST).offset == 3
    assert ask(world, 900).offset == -1
    assert ask(world, LATEST, replica_id=-2).offset == 4


def test_records_that_wait_for_their_sync_are_not_listed(world: World) -> None:
    produce(world, 900, commit=False)
    world.partition("t").log.write(sync=False)
    assert ask(world, LATEST).offset == 3
    assert ask(world, 900).offset == -1
    assert ask(world, MAX_TIMESTAMP).offset == -1


def test_deleted_records_are_not_listed(world: World) -> None:
    world.partition("t").log.delete_records_before(2, 0)
    assert found(ask(world, EARLIEST)) == (2, -1, 3)
    assert found(ask(world, 0)) == (2, 200, 3)


def test_errors_of_a_partition(world: World) -> None:
    codes = [
        ask(world, LATEST, topic="u").error_code,
        ask(world, LATEST, leader_epoch=2).error_code,
        ask(world, LATEST, leader_epoch=4).error_code,
        ask(world, LATEST, times=2).error_code,
    ]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
    ]


@pytest.mark.parametrize("version", [4, 5, NEWEST_VERSION])
def test_an_unknown_committed_end_is_not_answered_as_no_offset(world: World, version: int) -> None:
    """A consumer that begins at a time takes nothing for the end."""
    here = world.partition("t")
    state = PartitionState(0, 1, here.leader_epoch, (1, 2), (1, 2), 9)
    leadership = Leadership(
        1,
        state,
        ReplicaLog(here, here.log),
        high_watermark=1,
        min_insync_replicas=1,
        lag_ms_max=30_000,
        now_ms=0,
    )
    here.lead(leadership)
    unknown = ErrorCode.LEADER_NOT_AVAILABLE if version < 5 else ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(world, 101, version=version).error_code == unknown
    assert ask(world, LATEST, version=version).error_code == unknown
    if version >= 7:
        assert ask(world, MAX_TIMESTAMP, version=version).error_code == unknown
    assert ask(world, 100, version=version).offset == 0, "that is committed"
    assert ask(world, 301, version=version).offset == -1, "there is none, committed or not"
    assert ask(world, 101, version=version, replica_id=-2).offset == 1
