"""The records of consumer, share and streams groups in one form. Pure.

Members of a streams group get tasks: a subtopology with a partition number. Its topology says which topics
a subtopology reads.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

import msgspec

from kohort.broker.explain.observed.events import ObservedMember
from kohort.protocol import consumer_group_records as consumer
from kohort.protocol import share_group_records as share
from kohort.protocol import streams_group_records as streams
from kohort.protocol.offsets_topic import CONSUMER_GROUP_TYPES, SHARE_GROUP_TYPES, STREAMS_GROUP_TYPES
from kohort.protocol.schema import Message

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
_KINDS = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, CONSUMER),
    **dict.fromkeys(SHARE_GROUP_TYPES, SHARE),
    **dict.fromkeys(STREAMS_GROUP_TYPES, STREAMS),
}

Assignment = dict[str, tuple[int, ...]]
"""Partitions by the id of their topic, or by their subtopology."""


class MemberChange(msgspec.Struct):
    """A member that is new or changed; None for one that is gone."""

    member_id: str
    member: ObservedMember | None


class EpochChange(msgspec.Struct):
    """A group epoch; -1 for a group that is gone."""

    epoch: int
    metadata_hash: int = 0


class TargetChange(msgspec.Struct):
    """The target assignment of a member; None for none."""

    member_id: str
    assignment: Assignment | None


class TargetDone(msgspec.Struct):
    """The target assignments of an epoch are whole."""


class CurrentChange(msgspec.Struct):
    """What a member owns; None for nothing."""

    member_id: str
    assignment: Assignment | None


class PatternChange(msgspec.Struct):
    """The topics that a pattern of members matches; None for a pattern that is gone."""

    pattern: str
    topics: tuple[str, ...] | None


class TopologyChange(msgspec.Struct):
    """The topics of each subtopology of an application."""

    epoch: int
    topics: dict[str, tuple[str, ...]]


Change = (
    MemberChange | EpochChange | TargetChange | TargetDone | CurrentChange | PatternChange | TopologyChange
)


def kind_of(key: Message) -> str:
    """Return the kind of group that a record is of, empty for an unknown kind."""
    return _KINDS.get(type(key).declaration().api_key, "")


def change_of(key: Message, value: Message | None) -> Change | None:
    """Return the change that a record of a group describes, None for records that are not followed."""
    match key:
        case (
            consumer.ConsumerGroupMemberMetadataKey()
            | share.ShareGroupMemberMetadataKey()
            | streams.StreamsGroupMemberMetadataKey()
        ):
            return MemberChange(key.member_id, _member(key.member_id, value))
        case (
            consumer.ConsumerGroupMetadataKey()
            | share.ShareGroupMetadataKey()
            | streams.StreamsGroupMetadataKey()
        ):
            return _epoch(value)
        case (
            consumer.ConsumerGroupTargetAssignmentMemberKey()
            | share.ShareGroupTargetAssignmentMemberKey()
            | streams.StreamsGroupTargetAssignmentMemberKey()
        ):
            return TargetChange(key.member_id, _assignment(value))
        case (
            consumer.ConsumerGroupTargetAssignmentMetadataKey()
            | share.ShareGroupTargetAssignmentMetadataKey()
            | streams.StreamsGroupTargetAssignmentMetadataKey()
        ):
            return None if value is None else TargetDone()
        case (
            consumer.ConsumerGroupCurrentMemberAssignmentKey()
            | share.ShareGroupCurrentMemberAssignmentKey()
            | streams.StreamsGroupCurrentMemberAssignmentKey()
        ):
            return CurrentChange(key.member_id, _assignment(value))
        case consumer.ConsumerGroupRegularExpressionKey():
            if not isinstance(value, consumer.ConsumerGroupRegularExpressionValue):
                return PatternChange(key.regular_expression, None)
            return PatternChange(key.regular_expression, tuple(sorted(value.topics)))
        case streams.StreamsGroupTopologyKey() if isinstance(value, streams.StreamsGroupTopologyValue):
            return TopologyChange(
                value.epoch, {each.subtopology_id: _topics(each) for each in value.subtopologies}
            )
    return None


def _member(member_id: str, value: Message | None) -> ObservedMember | None:
    match value:
        case consumer.ConsumerGroupMemberMetadataValue():
            return ObservedMember(
                member_id,
                value.client_id,
                value.client_host,
                value.instance_id,
                tuple(sorted(value.subscribed_topic_names)),
                value.subscribed_topic_regex or "",
                rebalance_timeout_ms=max(value.rebalance_timeout_ms, 0),
            )
        case share.ShareGroupMemberMetadataValue():
            topics = tuple(sorted(value.subscribed_topic_names))
            return ObservedMember(member_id, value.client_id, value.client_host, None, topics)
        case streams.StreamsGroupMemberMetadataValue():
            return ObservedMember(
                member_id,
                value.client_id,
                value.client_host,
                value.instance_id,
                rebalance_timeout_ms=max(value.rebalance_timeout_ms, 0),
            )
    return None


def _epoch(value: Message | None) -> EpochChange:
    match value:
        case (
            consumer.ConsumerGroupMetadataValue()
            | share.ShareGroupMetadataValue()
            | streams.StreamsGroupMetadataValue()
        ):
            return EpochChange(value.epoch, value.metadata_hash)
    return EpochChange(-1)


def _assignment(value: Message | None) -> Assignment | None:
    match value:
        case (
            consumer.ConsumerGroupTargetAssignmentMemberValue()
            | share.ShareGroupTargetAssignmentMemberValue()
        ):
            return _by_topic(value.topic_partitions)
        case (
            consumer.ConsumerGroupCurrentMemberAssignmentValue()
            | share.ShareGroupCurrentMemberAssignmentValue()
        ):
            return _by_topic(value.assigned_partitions)
        case (
            streams.StreamsGroupTargetAssignmentMemberValue()
            | streams.StreamsGroupCurrentMemberAssignmentValue()
        ):
            return {each.subtopology_id: tuple(each.partitions) for each in value.active_tasks}
    return None


class _OfTopic(Protocol):
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> tuple[int, ...]: ...


def _by_topic(topics: Iterable[_OfTopic]) -> Assignment:
    return {str(each.topic_id): tuple(each.partitions) for each in topics}


def _topics(subtopology: streams.StreamsGroupSubtopology) -> tuple[str, ...]:
    made = (each.name for each in subtopology.repartition_source_topics)
    return tuple(sorted({*subtopology.source_topics, *made}))


def partitions_of(
    assignment: Assignment, topology: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> Assignment:
    """Return the partitions by topic that tasks read.

    A subtopology has as many tasks as its largest topic has partitions. The last ones do not read the others.
    `counts` may be older than the assignment: where all of them are lower than a task's number, none is used.
    """
    found: dict[str, set[int]] = {}
    for subtopology, partitions in assignment.items():
        topics = topology.get(subtopology, ())
        for partition in partitions:
            there = [topic for topic in topics if partition < counts.get(topic, partition + 1)]
            for topic in there or topics:
                found.setdefault(topic, set()).add(partition)
    return {topic: tuple(sorted(partitions)) for topic, partitions in found.items()}
