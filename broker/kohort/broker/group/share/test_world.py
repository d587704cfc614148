"""Members of share groups for the core's tests: they say what Kafka's clients say."""

from typing import Any, TypeVar
from uuid import UUID

from kohort.broker.group import GroupConfig, GroupCoordinator
from kohort.broker.group.consumer.test_world import Metadata, Place, metadata_of
from kohort.broker.group.share.commands import ShareGroupDescribe, ShareGroupHeartbeat, ShareStateReady
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.test_world import World
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeDescribedGroup
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.schema import Message

M = TypeVar("M", bound=Message)

AT_ONCE = GroupConfig(group_share_assignment_interval_ms=0)


class ShareWorld(World):
    """A world with topics. What the log says is what the core knows, after every decision."""

    def __init__(self, config: GroupConfig = AT_ONCE, **counts: int) -> None:
        super().__init__(config)
        self.metadata: Metadata = metadata_of(**(counts or {"t": 4}))
        self.epochs: dict[str, int] = {}

    def change(self, **counts: int) -> None:
        """Let these be the topics from now on."""
        self.metadata = metadata_of(self.metadata.version + 1, **counts)

    def group(self, group_id: str = "g") -> ShareGroup:
        group = self.core.groups[group_id]
        assert isinstance(group, ShareGroup)
        return group

    def flush(self) -> None:
        super().flush()
        assert share_state(self.core) == share_state(self.follower)
        for group in self.core.groups.values():
            if isinstance(group, ShareGroup):
                check(group)
                assert group.epoch >= self.epochs.get(group.group_id, 0)
                self.epochs[group.group_id] = group.epoch

    def make_ready(self, group_id: str = "g") -> None:
        """Let the share coordinator keep whatever the group has asked for."""
        asked = {topic_id: each.partitions for topic_id, each in self.group(group_id).initializing.items()}
        self.run(self.core.handle(ShareStateReady(group_id, asked), self.now_ms))

    def ask(self, kind: type[Any], answer: type[M], *asked: object) -> M:
        """Return the answer to a command of this kind about these things."""
        request_id = next(self.request_ids)
        self.run(self.core.handle(kind(request_id, *asked), self.now_ms))
        return self.answer(request_id, answer)

    def describe(self, group_id: str = "g") -> ShareGroupDescribeDescribedGroup:
        request_id = next(self.request_ids)
        self.run(self.core.handle(ShareGroupDescribe(request_id, group_id, self.metadata), self.now_ms))
        return self.answer(request_id, ShareGroupDescribeDescribedGroup)


def check(group: ShareGroup) -> None:
    """The invariants of a group: no member has a partition that is not ready, and epochs keep their order."""
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in group.initialized:
                assert partitions <= group.initialized[topic_id].partitions
        assert member.epoch <= group.assignment_epoch <= group.epoch
    for topic_id, topic in group.initializing.items():
        if topic_id in group.initialized:
            assert not topic.partitions & group.initialized[topic_id].partitions


def share_state(core: GroupCoordinator) -> dict[str, object]:
    """What the log says of each share group."""
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.assigned_at_ms,
            group.members,
            group.targets,
            group.initializing,
            group.initialized,
            group.state,
        )
        for group_id, group in core.groups.items()
        if isinstance(group, ShareGroup)
    }


class Sharer:
    """A member as the wire sees it."""

    def __init__(self, world: ShareWorld, name: str, *topics: str, group_id: str = "g") -> None:
        self.world = world
        self.member_id = name
        self.topics = topics or ("t",)
        self.group_id = group_id
        self.epoch = 0
        self.told: dict[UUID, tuple[int, ...]] = {}
        self.last = ShareGroupHeartbeatResponse(
            throttle_time_ms=0, error_code=0, member_epoch=0, heartbeat_interval_ms=0
        )

    def send(self, epoch: int, **fields: Any) -> ErrorCode:
        request_id = next(self.world.request_ids)
        message = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, **fields
        )
        message.encode(1)
        command = ShareGroupHeartbeat(request_id, message, "client", "/127.0.0.1", self.world.metadata)
        self.world.run(self.world.core.handle(command, self.world.now_ms))
        self.last = self.world.answer(request_id, ShareGroupHeartbeatResponse)
        if not self.last.error_code:
            self.epoch = self.last.member_epoch
            if self.last.assignment is not None:
                self.told = {each.topic_id: each.partitions for each in self.last.assignment.topic_partitions}
        return ErrorCode(self.last.error_code)

    def join(self) -> ErrorCode:
        return self.send(0, subscribed_topic_names=self.topics)

    def heartbeat(self, **fields: Any) -> ErrorCode:
        return self.send(self.epoch, **fields)

    def leave(self) -> ErrorCode:
        return self.send(-1)

    @property
    def has(self) -> set[Place]:
        """The partitions that it was assigned."""
        names = {topic_id: topic.name for topic_id, topic in self.world.metadata.topics_by_id.items()}
        return {(names[topic_id], index) for topic_id, each in self.told.items() for index in each}
