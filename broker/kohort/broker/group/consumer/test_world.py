"""Members of consumer groups for the core's tests: they say what Kafka's clients say."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from kohort.broker.group import GroupConfig, GroupCoordinator, OffsetCommit
from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.test_world import World
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeDescribedGroup
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

AT_ONCE = GroupConfig(group_consumer_assignment_interval_ms=0)
Place = tuple[str, int]


class Topic(msgspec.Struct, frozen=True):
    name: str
    topic_id: UUID
    partitions: tuple[int, ...]
    is_internal: bool = False


class Metadata(msgspec.Struct, frozen=True):
    version: int
    topics: Mapping[str, Topic]
    group_configs: Mapping[str, Mapping[str, str]] = {}

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self.group_configs.get(group_id, {})

    @property
    def topics_by_id(self) -> dict[UUID, Topic]:
        return {each.topic_id: each for each in self.topics.values()}


def metadata_of(version: int = 1, **counts: int) -> Metadata:
    """Topics of these names with so many partitions; a name always has the same id."""
    topics = {
        name: Topic(name, UUID(int=int.from_bytes(name.encode(), "big")), tuple(range(count)))
        for name, count in counts.items()
    }
    return Metadata(version, topics)


class ConsumerWorld(World):
    """A world with topics. After every decision no partition is two members', and no epoch has gone back."""

    def __init__(self, config: GroupConfig = AT_ONCE, **counts: int) -> None:
        super().__init__(config)
        self.metadata: Metadata = metadata_of(**(counts or {"t": 4}))
        self.epochs: dict[str, int] = {}

    def change(self, **counts: int) -> None:
        """Let these be the topics from now on."""
        self.metadata = metadata_of(self.metadata.version + 1, **counts)

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.core.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def flush(self) -> None:
        super().flush()
        assert consumer_state(self.core) == consumer_state(self.follower)
        for group in self.core.groups.values():
            if isinstance(group, ConsumerGroup):
                check(group)
                assert group.epoch >= self.epochs.get(group.group_id, 0)
                self.epochs[group.group_id] = group.epoch
            else:  # An empty group that becomes a classic one begins anew, as in Kafka.
                self.epochs.pop(group.group_id, None)

    def describe(self, group_id: str = "g") -> ConsumerGroupDescribeDescribedGroup:
        request_id = next(self.request_ids)
        self.run(self.core.handle(ConsumerGroupDescribe(request_id, group_id, self.metadata), self.now_ms))
        return self.answer(request_id, ConsumerGroupDescribeDescribedGroup)


def check(group: ConsumerGroup) -> None:
    """What must hold of a group at any time."""
    owners: dict[tuple[UUID, int], str] = {}
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for index in partitions:
                    assert owners.setdefault((topic_id, index), member.member_id) == member.member_id
        assert member.epoch <= max(group.assignment_epoch, 0) <= group.epoch
    assert owners == {
        (topic_id, index): member_id
        for topic_id, each in group.owners.items()
        for index, member_id in each.items()
    }


def consumer_state(core: GroupCoordinator) -> dict[str, object]:
    """What the log says of each consumer group."""
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.assigned_at_ms,
            group.members,
            group.targets,
            group.regexes,
            group.state,
        )
        for group_id, group in core.groups.items()
        if isinstance(group, ConsumerGroup)
    }


class Consumer:
    """A member as the wire sees it: it revokes on request, unless it is `stubborn`."""

    def __init__(
        self,
        world: ConsumerWorld,
        name: str,
        *topics: str,
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        group_id: str = "g",
    ) -> None:
        self.world = world
        self.member_id = name
        self.topics = topics or (() if regex is not None else ("t",))
        self.regex = regex
        self.instance = instance
        self.assignor = assignor
        self.group_id = group_id
        self.epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}
        self.told: dict[UUID, tuple[int, ...]] = {}
        self.stubborn = False
        self.last = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0, error_code=0, member_epoch=0, heartbeat_interval_ms=0
        )

    def send(self, epoch: int, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request_id = next(self.world.request_ids)
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance,
            **fields,
        )
        message.encode(version)
        command = ConsumerGroupHeartbeat(
            request_id,
            message,
            version,
            "made-for-it",
            "client",
            "/127.0.0.1",
            self.world.metadata,
            self.world.may_describe,
        )
        self.world.run(self.world.core.handle(command, self.world.now_ms))
        self.last = self.world.answer(request_id, ConsumerGroupHeartbeatResponse)
        return self.last

    def join(self, version: int = 1) -> ErrorCode:
        self.owned = self.told = {}
        response = self.send(
            0,
            version,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=(),
        )
        self._take(response)
        return ErrorCode(response.error_code)

    def heartbeat(self, **fields: Any) -> ErrorCode:
        """One heartbeat with what is owned."""
        owned = tuple(
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        )
        response = self.send(self.epoch, topic_partitions=owned, **fields)
        self._take(response)
        return ErrorCode(response.error_code)

    def command(self) -> ConsumerGroupHeartbeat:
        """The next heartbeat, not sent yet."""
        owned = tuple(
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        )
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            topic_partitions=owned,
        )
        request_id = next(self.world.request_ids)
        return ConsumerGroupHeartbeat(
            request_id,
            message,
            1,
            "made-for-it",
            "client",
            "/127.0.0.1",
            self.world.metadata,
            self.world.may_describe,
        )

    def quiet_heartbeat(self) -> ErrorCode:
        """A heartbeat of a member without any change."""
        response = self.send(self.epoch)
        self._take(response)
        return ErrorCode(response.error_code)

    def leave(self, epoch: int = -1) -> ErrorCode:
        self.owned = self.told = {}
        return ErrorCode(self.send(epoch).error_code)

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code:
            return
        self.epoch = response.member_epoch
        assert response.member_id is not None
        self.member_id = response.member_id
        if response.assignment is not None:
            self.told = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            self.act()

    def act(self) -> None:
        """Take over the assignment, unless the member does not listen."""
        if not self.stubborn:
            self.owned = self.told

    @property
    def has(self) -> set[Place]:
        names = {each.topic_id: name for name, each in self.world.metadata.topics.items()}
        return {(names[topic_id], index) for topic_id, indexes in self.owned.items() for index in indexes}

    def commit(self, topic: str, partition: int, epoch: int | None = None, version: int = 10) -> ErrorCode:
        request_id = next(self.world.request_ids)
        asked = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=None
        )
        topic_id = self.world.metadata.topics[topic].topic_id
        message = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            topics=(OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=(asked,)),),
        )
        self.world.do(OffsetCommit(request_id, message, version))
        answer = self.world.answer(request_id, OffsetCommitResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def settle(*consumers: Consumer) -> None:
    """Let all members send heartbeats until the group is stable."""
    for _ in range(20):
        for each in consumers:
            assert each.heartbeat() is ErrorCode.NONE, each.last
        if consumers[0].world.group(consumers[0].group_id).state.value == "Stable":
            return
    raise AssertionError("the group does not come to rest")


def test_a_lone_member_gets_everything_with_its_first_heartbeat() -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.has) == (2, {("t", 0), ("t", 1), ("t", 2), ("t", 3)})
    assert world.state() == "Stable"
