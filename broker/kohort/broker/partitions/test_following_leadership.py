"""In a cluster the table leads what the metadata and the lease say, and refuses everything else."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kohort.broker.metadata import Mutation, PartitionKey, PartitionState, TopicState
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import NODE_ID, World
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import build_batch

OTHER = NODE_ID + 1
TOPIC_ID = uuid4()


class Lease:
    """Whether this broker may act, as the test says."""

    def __init__(self) -> None:
        self.holds = True

    def __call__(self, key: PartitionKey, state: PartitionState) -> bool:
        assert key == (TOPIC_ID, state.index)
        return self.holds


class Reader:
    """A reader that waits for more records."""

    def __init__(self) -> None:
        self.told: list[ErrorCode | None] = []

    def advanced(self, partition: Partition) -> None:
        self.told.append(partition.error_code)


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
def world(tmp_path: Path, lease: Lease) -> World:
    return World(tmp_path, may_lead=lease)


def lead(world: World, *leaders: int, epoch: int = 0) -> None:
    """Let the topic's partitions have these leaders."""
    states = tuple(
        PartitionState(index, leader, epoch, (NODE_ID, OTHER), (NODE_ID, OTHER), epoch)
        for index, leader in enumerate(leaders)
    )
    world.metadata.apply(Mutation(put=(TopicState("t", TOPIC_ID, states),)))


def refusal(serve: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        serve()
    return caught.value.code


def test_a_broker_serves_a_partition_after_its_election(world: World) -> None:
    lead(world, OTHER)
    assert refusal(lambda: world.table.serving("t", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(world, NODE_ID, epoch=1)
    assert world.table.serving("t", 0).leader_epoch == 1
    assert world.table.get_by_id(TOPIC_ID, 0) is world.table.get("t", 0)


def test_waiters_are_answered_when_another_broker_is_elected_and_appends_stop(world: World) -> None:
    lead(world, NODE_ID)
    partition = world.table.serving("t", 0)
    reader = Reader()
    partition.waits[reader] = None
    lead(world, OTHER, epoch=1)
    assert reader.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert refusal(lambda: world.table.serving("t", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    batch = build_batch([(0, b"key", b"value", ())])
    with pytest.raises(Exception, match="does not serve"):
        partition.append_own(batch)
    assert partition.log.log_end_offset == 0


def test_a_leader_elected_again_continues_at_its_log_end_with_the_new_epoch(world: World) -> None:
    lead(world, NODE_ID)
    partition = world.table.serving("t", 0)
    partition.append_own(build_batch([(0, b"key", b"value", ())]))
    lead(world, OTHER, epoch=1)
    lead(world, NODE_ID, epoch=2)
    again = world.table.serving("t", 0)
    assert again is partition
    assert (again.leader_epoch, again.log.log_end_offset) == (2, 1)


def test_without_a_lease_no_partition_is_led_until_the_next_lease(world: World, lease: Lease) -> None:
    lead(world, NODE_ID, OTHER)
    world.table.serving("t", 0)
    lease.holds = False
    world.table.assignment.refresh()
    assert refusal(lambda: world.table.serving("t", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lease.holds = True
    world.table.assignment.refresh()
    world.table.serving("t", 0)
    assert refusal(lambda: world.table.serving("t", 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_resigned_partition_stays_so_when_its_log_is_opened_again(world: World) -> None:
    lead(world, NODE_ID)
    partition = world.table.serving("t", 0)
    lead(world, OTHER, epoch=1)
    partition.reopened(world.files.open(partition, again=True))
    assert partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(world, NODE_ID, epoch=2)
    assert partition.error_code is None


def test_new_partitions_are_added_while_others_change_their_leader(world: World) -> None:
    lead(world, NODE_ID, OTHER)
    lead(world, OTHER, NODE_ID, NODE_ID, OTHER, epoch=1)
    led = [each.index for each in world.table if not each.resigned]
    assert led == [1, 2]
    assert [world.table.peek("t", index) is not None for index in range(5)] == [True] * 4 + [False]


def test_a_follower_has_an_open_log(world: World) -> None:
    lead(world, OTHER)
    partition = world.table.peek("t", 0)
    assert partition is not None
    assert not world.table.leads("t", 0)
    partition.open()
    assert partition.had_log
    assert (world.data.path / "t-0").is_dir()


def test_partitions_of_other_brokers_are_not_in_the_table(world: World) -> None:
    state = PartitionState(0, OTHER, 0, (OTHER,), (OTHER,))
    world.metadata.apply(Mutation(put=(TopicState("t", TOPIC_ID, (state,)),)))
    assert world.table.get("t", 0) is None
    assert world.table.why_missing("t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_single_broker_leads_every_partition(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t", 2, topic_id=UUID(int=1))
    assert len(world.table) == 2
