"""A partition that can't be answered for takes nothing from the others."""

from collections.abc import Mapping

import anyio
import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.connection import Connection
from kohort.client.errors import BrokerError, NoOffsetError
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetch_plan import FetchPlan, plan_fetches
from kohort.client.lookups import Lookups
from kohort.client.offsets import list_offsets
from kohort.client.positions import NOT_COMMITTED, PartitionState, Positions
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from kohort.protocol.schema import Message

GOOD, BAD = TopicPartition("t", 0), TopicPartition("t", 1)
LATER, NEVER = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED


class OneBad(Cluster):
    """A cluster that answers for partition 0, and of partition 1 says `code`."""

    def __init__(self, code: int, options: Mapping[str, object]) -> None:
        super().__init__(consumer_config(options))
        self.code = code
        self.leaderless: frozenset[TopicPartition] = frozenset()

    def leader(self, partition: TopicPartition) -> PartitionInfo:
        if partition in self.leaderless:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        return PartitionInfo(partition.partition, 1, 7, (1,), (1,))

    async def coordinator(self, key: str, key_type: int = 0) -> Node:
        return Node(1, "localhost", 1)

    async def connection_to(self, node: Node, channel: str = "") -> Connection:
        return self  # type: ignore[return-value]  # Asked for a version alone.

    def version_of(self, request: type[Message], highest: int) -> int:
        return highest

    async def refresh_metadata(self, topics: object, *, create: bool = False) -> None:
        pass

    async def request_coordinator(self, key, request, answer, **options):  # type: ignore[no-untyped-def]  # Whatever is asked.
        assert isinstance(request, OffsetFetchRequest)
        partitions = tuple(
            OffsetFetchResponsePartitions(
                partition_index=each, committed_offset=5, metadata="", error_code=code
            )
            for each, code in ((0, 0), (1, self.code))
        )
        topic = OffsetFetchResponseTopics(name="t", partitions=partitions)
        group = OffsetFetchResponseGroup(group_id="g", topics=(topic,), error_code=0)
        return OffsetFetchResponse(throttle_time_ms=0, topics=(), error_code=0, groups=(group,))

    async def request(self, node_id, request, answer, **options):  # type: ignore[no-untyped-def]  # Whatever is asked.
        asked = [
            each.partition_index if isinstance(request, ListOffsetsRequest) else each.partition
            for topic in request.topics
            for each in topic.partitions
        ]
        codes = {each: self.code if each else 0 for each in asked}
        if isinstance(request, ListOffsetsRequest):
            found = tuple(
                ListOffsetsPartitionResponse(
                    partition_index=each, error_code=code, timestamp=-1, offset=9, leader_epoch=7
                )
                for each, code in codes.items()
            )
            return ListOffsetsResponse(
                throttle_time_ms=0, topics=(ListOffsetsTopicResponse(name="t", partitions=found),)
            )
        ends = tuple(
            OffsetForLeaderEpochResponseEpochEndOffset(
                error_code=code, partition=each, leader_epoch=5, end_offset=100
            )
            for each, code in codes.items()
        )
        return OffsetForLeaderEpochResponse(
            throttle_time_ms=0, topics=(OffsetForLeaderTopicResult(topic="t", partitions=ends),)
        )


class World:
    def __init__(self, code: int, **options: object) -> None:
        self.cluster = OneBad(code, {"group_id": "g", **options})
        config = consumer_config({"group_id": "g", **options})
        self.buffer = FetchBuffer(can_reset=config.can_reset)
        self.metadata_needed: list[None] = []
        self.lookups = Lookups(self.cluster, config, self.buffer, lambda: self.metadata_needed.append(None))
        self.positions = Positions()
        self.positions.assign([GOOD, BAD])
        self.states = list(self.positions)

    @property
    def good(self) -> PartitionState:
        return self.states[0]

    @property
    def bad(self) -> PartitionState:
        return self.states[1]

    def plan(self, now_ms: float = 0) -> FetchPlan:
        def find_leader(partition: TopicPartition) -> PartitionInfo | None:
            try:
                return self.cluster.leader(partition)
            except BrokerError:
                return None

        return plan_fetches(self.positions, find_leader, [1], now_ms)

    def check(self) -> None:
        """The one goes on; the other is asked about later, or its error waits for a poll."""
        assert self.plan().by_node == {1: [self.good]}
        if self.cluster.code == LATER:
            assert self.metadata_needed
            assert self.plan().next_at_ms == self.bad.retry_at_ms > 0
        else:
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: partition t-1"):
                self.buffer.take(1)


@pytest.mark.parametrize("code", [LATER, NEVER])
def test_committed_offsets_fail_for_each_partition_alone(code: int) -> None:
    world = World(code)
    assert world.plan().uncommitted == world.states
    anyio.run(world.lookups.find_committed, world.states)
    assert (world.good.position, world.bad.position) == (5, None)
    world.check()


@pytest.mark.parametrize("code", [LATER, NEVER])
def test_offset_lookups_fail_for_each_partition_alone(code: int) -> None:
    world = World(code)
    for each in world.states:
        each.reset_to = NOT_COMMITTED
    assert world.plan().to_look_up == {1: world.states}
    anyio.run(world.lookups.look_up, 1, world.states)
    assert (world.good.position, world.bad.position) == (9, None)
    world.check()


@pytest.mark.parametrize("code", [LATER, NEVER])
def test_positions_are_checked_partition_by_partition(code: int) -> None:
    world = World(code)
    for each in world.states:
        each.seek(50, leader_epoch=5)
    assert world.plan().unsure == {1: world.states}
    anyio.run(world.lookups.validate, 1, world.states)
    world.check()


def test_a_partition_without_a_leader_does_not_delay_others() -> None:
    world = World(0)
    world.cluster.leaderless = frozenset({BAD})
    for each in world.states:
        each.reset_to = NOT_COMMITTED
    plan = world.plan()
    assert (plan.to_look_up, plan.without_leader) == ({1: [world.good]}, [world.bad])


def test_a_partition_without_a_reset_policy_is_an_error_at_every_poll_and_does_not_delay_others() -> None:
    world = World(0, auto_offset_reset="none")
    world.good.seek_to(-2)
    world.bad.reset_to = NOT_COMMITTED
    for states in (world.states, [world.bad]):
        anyio.run(world.lookups.look_up, 1, states)
        assert world.plan().by_node == {1: [world.good]}
        with pytest.raises(NoOffsetError, match="t-1: no offset is committed"):
            world.buffer.take(1)
        world.bad.retry_at_ms = 0
        assert world.plan().to_look_up == {1: [world.bad]}


def test_a_position_lookup_raises_the_error_of_its_partition() -> None:
    world = World(NEVER)
    anyio.run(world.lookups.find_committed, world.states)
    world.buffer.raise_failure(world.good)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        world.buffer.raise_failure(world.bad)


async def test_a_lookup_of_several_offsets_returns_all_or_raises_the_first_error() -> None:
    world = World(LATER)
    wanted = {GOOD: -1, BAD: -1}
    with pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER: partition t-1"):
        await list_offsets(world.cluster, wanted)
    world.cluster.code = 0
    assert {each: found.offset for each, found in (await list_offsets(world.cluster, wanted)).items()} == {
        GOOD: 9,
        BAD: 9,
    }
