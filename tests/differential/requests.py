"""What a script asks, written down for one broker: there members have the ids that it gave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.schema import Message
from tests.differential.actor import Actor, Words
from tests.differential.side import NO_ID, Rendered, Side

VERSIONS = {
    "JoinGroup": (0, 9),
    "SyncGroup": (0, 5),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "DeleteGroups": (0, 2),
    "OffsetDelete": (0, 0),
    "FindCoordinator": (0, 6),
}
"""The versions that both brokers speak."""

STATIC_FROM = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3, "OffsetCommit": 7}
TOPIC_IDS_FROM = 10
BATCHES_FROM = {"LeaveGroup": 3, "OffsetFetch": 8, "FindCoordinator": 4}

Topics = Sequence[tuple[str, Sequence[int]]]


@dataclass
class Ask:
    """One request of a script, and what the script learns from its answer."""

    name: str
    version: int
    build: Callable[[Side], Message]
    text: str
    client_id: str = "control"
    learn: Callable[[Rendered], None] = lambda _answer: None
    actor: Actor | None = None
    group_id: str = ""

    @property
    def may_wait(self) -> bool:
        """Whether a broker may keep this request until others have come."""
        return self.name in {"JoinGroup", "SyncGroup"}


@dataclass
class Wait:
    """Do nothing until time has brought something about: parked requests answered, or a member gone."""

    gone: str | None = None

    @property
    def text(self) -> str:
        """Return the line that stands for it in a transcript."""
        return f"wait until {self.gone} is gone" if self.gone else "wait until somebody is answered"


def pick_version(random: Random, name: str, *, newest: int, words: Words | None = None) -> int:
    """Return a version of the API, an older one if the script is of old clients."""
    lowest, highest = VERSIONS[name]
    if words is not None and words.instance_id is not None:
        lowest = STATIC_FROM[name]
    return random.randint(lowest, max(lowest, min(highest, newest)))


def join(version: int, words: Words, reason: str | None) -> Ask:
    """Ask to be in the next generation."""

    def build(side: Side) -> Message:
        return JoinGroupRequest(
            group_id=words.group_id,
            session_timeout_ms=words.session_ms,
            rebalance_timeout_ms=words.rebalance_ms,
            member_id=side.member_id(words.member),
            group_instance_id=words.instance_id,
            protocol_type=words.protocol_type or "",
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=_subscription(topics))
                for name, topics in words.protocols
            ),
            reason=reason,
        )

    return Ask("JoinGroup", version, build, f"JoinGroup {version} {words}", group_id=words.group_id)


def sync(version: int, words: Words, assigned: Sequence[str]) -> Ask:
    """Ask for the assignment, or hand one out to these members."""

    def build(side: Side) -> Message:
        return SyncGroupRequest(
            group_id=words.group_id,
            generation_id=words.generation_id,
            member_id=side.member_id(words.member),
            group_instance_id=words.instance_id,
            protocol_type=words.protocol_type,
            protocol_name=words.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=side.member_id(each), assignment=_assignment(words.generation_id, position)
                )
                for position, each in enumerate(assigned)
            ),
        )

    text = f"SyncGroup {version} {words} to {list(assigned)}"
    return Ask("SyncGroup", version, build, text, group_id=words.group_id)


def heartbeat(version: int, words: Words) -> Ask:
    """Say that a member lives."""

    def build(side: Side) -> Message:
        return HeartbeatRequest(
            group_id=words.group_id,
            generation_id=words.generation_id,
            member_id=side.member_id(words.member),
            group_instance_id=words.instance_id,
        )

    return Ask("Heartbeat", version, build, f"Heartbeat {version} {words}")


def leave(version: int, group_id: str, leavers: Sequence[tuple[str, str | None]], reason: str | None) -> Ask:
    """Let members go, each named by its id, its instance id or both; before version 3 only the first."""

    def build(side: Side) -> Message:
        if version < BATCHES_FROM["LeaveGroup"]:
            return LeaveGroupRequest(group_id=group_id, member_id=side.member_id(leavers[0][0]), members=())
        members = tuple(
            MemberIdentity(member_id=side.member_id(member), group_instance_id=instance_id, reason=reason)
            for member, instance_id in leavers
        )
        return LeaveGroupRequest(group_id=group_id, member_id="", members=members)

    return Ask("LeaveGroup", version, build, f"LeaveGroup {version} {group_id!r} {list(leavers)} {reason!r}")


def commit(version: int, words: Words, topics: Topics, offset: int, metadata: str | None) -> Ask:
    """Keep this offset for each of the partitions."""

    def build(side: Side) -> Message:
        by_id = version >= TOPIC_IDS_FROM
        return OffsetCommitRequest(
            group_id=words.group_id,
            generation_id_or_member_epoch=words.generation_id,
            member_id=side.member_id(words.member),
            group_instance_id=words.instance_id,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name="" if by_id else name,
                    topic_id=side.topic_id(name) if by_id else NO_ID,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset + index,
                            committed_leader_epoch=offset % 3 - 1,
                            committed_metadata=metadata,
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in topics
            ),
        )

    said = "none" if metadata is None else f"{len(metadata)} characters"
    return Ask(
        "OffsetCommit",
        version,
        build,
        f"OffsetCommit {version} {words} {topics} {offset} {said}",
        group_id=words.group_id,
    )


def fetch(version: int, group_ids: Sequence[str], topics: Topics | None, *, stable: bool) -> Ask:
    """Ask how far the groups have read; before version 8 only the first."""

    def build(side: Side) -> Message:
        if version < BATCHES_FROM["OffsetFetch"]:
            names = tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics or ()
            )
            asked = None if topics is None and version > 1 else names
            return OffsetFetchRequest(
                group_id=group_ids[0], topics=asked, groups=(), require_stable=stable and version >= 7
            )
        by_id = version >= TOPIC_IDS_FROM
        wanted = tuple(
            OffsetFetchRequestTopics(
                name="" if by_id else name,
                topic_id=side.topic_id(name) if by_id else NO_ID,
                partition_indexes=tuple(indexes),
            )
            for name, indexes in topics or ()
        )
        groups = tuple(
            OffsetFetchRequestGroup(group_id=each, topics=None if topics is None else wanted)
            for each in group_ids
        )
        return OffsetFetchRequest(group_id="", topics=(), groups=groups, require_stable=stable)

    return Ask("OffsetFetch", version, build, f"OffsetFetch {version} {list(group_ids)} {topics}")


def describe(version: int, group_ids: Sequence[str]) -> Ask:
    """Ask for state, members and assignments."""
    message = DescribeGroupsRequest(groups=tuple(group_ids), include_authorized_operations=False)
    return Ask("DescribeGroups", version, lambda _side: message, f"DescribeGroups {version} {group_ids}")


def list_groups(version: int, states: Sequence[str], types: Sequence[str]) -> Ask:
    """Ask for all groups in these states and of these types."""
    message = ListGroupsRequest(
        states_filter=tuple(states) if version >= 4 else (), types_filter=tuple(types) if version >= 5 else ()
    )
    return Ask("ListGroups", version, lambda _side: message, f"ListGroups {version} {states} {types}")


def delete_groups(version: int, group_ids: Sequence[str]) -> Ask:
    """Ask that the groups be forgotten."""
    message = DeleteGroupsRequest(groups_names=tuple(group_ids))
    return Ask("DeleteGroups", version, lambda _side: message, f"DeleteGroups {version} {group_ids}")


def delete_offsets(group_id: str, topics: Topics) -> Ask:
    """Ask that offsets be forgotten."""
    message = OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in indexes),
            )
            for name, indexes in topics
        ),
    )
    return Ask("OffsetDelete", 0, lambda _side: message, f"OffsetDelete 0 {group_id!r} {topics}")


def find_coordinator(version: int, group_id: str) -> Ask:
    """Ask which broker keeps the group."""
    batched = version >= BATCHES_FROM["FindCoordinator"]
    message = FindCoordinatorRequest(
        key="" if batched else group_id, coordinator_keys=(group_id,) if batched else ()
    )
    return Ask("FindCoordinator", version, lambda _side: message, f"FindCoordinator {version} {group_id!r}")


def _subscription(topics: Sequence[str]) -> bytes:
    return ConsumerProtocolSubscription(topics=tuple(topics), owned_partitions=()).encode_versioned()


def _assignment(generation_id: int, position: int) -> bytes:
    partitions = (TopicPartitions(topic="alpha", partitions=(generation_id, position)),)
    return ConsumerProtocolAssignment(assigned_partitions=partitions).encode_versioned()
