"""Positions that a new leader may not have (KIP-320), against answers put in by hand."""

from collections.abc import Mapping

import anyio
import msgspec
import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.errors import LogTruncationError
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetch_plan import plan_fetches
from kohort.client.fetched_chunk import Chunk
from kohort.client.lookups import Lookups
from kohort.client.positions import RESET, PartitionState
from kohort.client.values import OffsetAndMetadata, PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)

PARTITION = TopicPartition("t", 0)
LEADER = PartitionInfo(0, 1, 7, (1,), (1,))


class OneAnswer(Cluster):
    """A cluster whose only broker ends the epoch where it is told to."""

    def __init__(self, options: Mapping[str, object], leader_epoch: int, end_offset: int, code: int) -> None:
        super().__init__(consumer_config(options))
        self.asked: list[tuple[int, int]] = []
        self.meanwhile: list[PartitionState] = []
        self.goes_on: PartitionState | None = None
        self._answer = (leader_epoch, end_offset, code)

    def leader(self, partition: TopicPartition) -> PartitionInfo:
        assert partition == PARTITION
        return LEADER

    async def request(self, node_id, request, answer, **options):  # type: ignore[no-untyped-def]  # Whatever is asked.
        assert isinstance(request, OffsetForLeaderEpochRequest)
        (topic,) = request.topics
        (partition,) = topic.partitions
        self.asked.append((partition.current_leader_epoch, partition.leader_epoch))
        for each in self.meanwhile:
            each.seek(3)
        if self.goes_on is not None:
            self.goes_on.stand.position = (self.goes_on.stand.position or 0) + 1
        leader_epoch, end_offset, code = self._answer
        found = OffsetForLeaderEpochResponseEpochEndOffset(
            error_code=code, partition=0, leader_epoch=leader_epoch, end_offset=end_offset
        )
        return OffsetForLeaderEpochResponse(
            throttle_time_ms=0, topics=(OffsetForLeaderTopicResult(topic="t", partitions=(found,)),)
        )


class World:
    def __init__(
        self, leader_epoch: int, end_offset: int, *, code: int = 0, auto_offset_reset: str = "latest"
    ) -> None:
        options = {"auto_offset_reset": auto_offset_reset}
        self.cluster = OneAnswer(options, leader_epoch, end_offset, code)
        config = consumer_config(options)
        self.buffer = FetchBuffer(can_reset=config.can_reset)
        self.metadata_needed: list[None] = []
        self.lookups = Lookups(self.cluster, config, self.buffer, lambda: self.metadata_needed.append(None))
        self.state = PartitionState(PARTITION)
        self.state.seek(100, leader_epoch=5)

    def validate(self) -> None:
        """Ask, and let the reader do what comes of it."""
        anyio.run(self.lookups.validate, 1, [self.state])
        assert self.buffer.take(1) == []

    @property
    def is_unsure(self) -> bool:
        plan = plan_fetches([self.state], lambda _: LEADER, [1], 0)
        assert bool(plan.unsure) is not bool(plan.by_node)
        return bool(plan.unsure)


def test_a_position_that_the_new_leader_has_is_kept() -> None:
    world = World(5, 100)
    assert world.is_unsure
    world.validate()
    assert world.cluster.asked == [(7, 5)]
    assert (world.state.position, world.state.fetch_offset, world.is_unsure) == (100, 100, False)


def test_a_position_without_an_epoch_is_not_validated() -> None:
    world = World(5, 100)
    world.state.seek(100)
    assert not world.is_unsure


def test_a_log_that_was_cut_off_is_read_from_where_it_was_cut() -> None:
    world = World(4, 60)
    world.validate()
    assert (world.state.position, world.state.stand.leader_epoch, world.is_unsure) == (60, 4, False)


def test_a_log_that_was_cut_off_is_an_error_without_a_reset_policy() -> None:
    world = World(4, 60, auto_offset_reset="none")
    with pytest.raises(LogTruncationError, match="from offset 60 on") as caught:
        world.validate()
    assert caught.value.partition == PARTITION
    assert caught.value.position == OffsetAndMetadata(100, leader_epoch=5)
    assert caught.value.divergent == OffsetAndMetadata(60, leader_epoch=4)
    assert world.state.position == 100


@pytest.mark.parametrize("answer", [(-1, -1), (5, -1), (-1, 60)])
def test_an_unknown_epoch_resets_the_position(answer: tuple[int, int]) -> None:
    world = World(*answer)
    world.validate()
    assert (world.state.position, world.state.reset_to) == (None, RESET)


def test_an_unknown_epoch_is_an_error_without_a_reset_policy() -> None:
    world = World(-1, -1, auto_offset_reset="none")
    with pytest.raises(LogTruncationError, match="somewhere before") as caught:
        world.validate()
    assert caught.value.divergent is None


def test_a_concurrent_seek_is_kept() -> None:
    world = World(4, 60)
    world.cluster.meanwhile.append(world.state)
    world.validate()
    assert world.state.position == 3


def test_records_fetched_from_the_old_leader_are_dropped() -> None:
    world = World(5, 100)
    before = world.state.stand.fetching
    world.validate()
    assert world.state.stand.fetching is not before


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_answer_from_a_former_leader_is_requested_again(code: ErrorCode) -> None:
    world = World(5, 100, code=code)
    world.validate()
    assert world.metadata_needed
    assert world.state.retry_at_ms > 0
    world.state.retry_at_ms = 0
    assert world.is_unsure


def test_a_position_that_moves_during_validation_is_validated_again() -> None:
    world = World(4, 60)
    anyio.run(world.lookups.validate, 1, [world.state])
    assert world.buffer.take(1) == [], "it goes back"
    world.state.seek(100, leader_epoch=5)
    world.cluster.goes_on = world.state
    anyio.run(world.lookups.validate, 1, [world.state])
    assert world.buffer.take(1) == []
    assert (world.state.position, world.is_unsure) == (101, True)


def test_only_the_reading_thread_truncates_the_position() -> None:
    world = World(4, 60)
    stand = world.state.stand
    anyio.run(world.lookups.validate, 1, [world.state])
    assert world.state.stand is stand, "not the one who asks"
    assert world.buffer.has_records, "a poll is to look"
    assert world.buffer.take(1) == []
    assert world.state.position == 60


def test_records_from_the_current_leader_need_no_validation() -> None:
    state = PartitionState(PARTITION)
    state.seek(100)
    assert plan_fetches([state], lambda _: LEADER, [1], 0).by_node
    state.stand.leader_epoch = 7  # As it is when the first batch has been read.
    plan = plan_fetches([state], lambda _: LEADER, [1], 0)
    assert plan.by_node
    assert not plan.unsure
    moved = msgspec.structs.replace(LEADER, leader_epoch=8)
    assert plan_fetches([state], lambda _: moved, [1], 0).unsure == {1: [state]}


def test_records_that_an_old_leader_has_sent_are_checked_when_they_are_read() -> None:
    world = World(5, 100)
    state = PartitionState(PARTITION)
    state.seek(100)
    plan_fetches([state], lambda _: LEADER, [1], 0)
    world.buffer.add(Chunk(state))
    moved = msgspec.structs.replace(LEADER, leader_epoch=8)
    plan_fetches([state], lambda _: moved, [1], 0)
    state.stand.leader_epoch = 7
    assert plan_fetches([state], lambda _: moved, [1], 0).unsure == {1: [state]}


def test_a_seek_between_the_plan_and_its_task_is_not_overtaken() -> None:
    options = {"group_id": "g", "auto_offset_reset": "latest"}
    cluster = OneAnswer(options, -1, -1, 0)
    lookups = Lookups(cluster, consumer_config(options), FetchBuffer(can_reset=True))
    for where in (None, RESET):
        state = PartitionState(PARTITION)
        state.reset_to = where
        plan = plan_fetches([state], lambda _: LEADER, [1], 0)
        state.seek(0)
        anyio.run(lookups.find_committed, plan.uncommitted)
        for node_id, states in plan.to_look_up.items():
            anyio.run(lookups.look_up, node_id, states)
        assert (plan.uncommitted or plan.to_look_up[1]) == [state]
        assert state.position == 0
    state = PartitionState(PARTITION)
    state.seek(100, leader_epoch=5)
    assert plan_fetches([state], lambda _: LEADER, [1], 0).unsure == {1: [state]}
    state.seek(0)
    anyio.run(lookups.validate, 1, [state])
    assert (state.position, cluster.asked) == (0, [])
