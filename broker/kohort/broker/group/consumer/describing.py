"""ConsumerGroupDescribe: a group with its epochs, its members, their current and target assignments."""

from collections.abc import Collection, Mapping
from uuid import UUID

from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, describe_error
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember, preferred_assignor
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)

CLASSIC_MEMBER = 0
"""The type of a member with the classic protocol."""

CONSUMER_MEMBER = 1
"""The type of a member with the consumer protocol (KIP-1099)."""


def describe(turn: Turn, command: ConsumerGroupDescribe) -> None:
    """Answer with the group, or with the error."""
    try:
        group = turn.groups.existing(command.group_id, ConsumerGroup)
        answer = described(group, command.metadata, turn.config.default_consumer_assignor)
    except ApiError as error:
        answer = describe_error(command.group_id, error.code, error.message)
    turn.reply(command.request_id, answer)


def described(
    group: ConsumerGroup, metadata: Metadata, default_assignor: str
) -> ConsumerGroupDescribeDescribedGroup:
    """Return the group; topics that are gone are left out."""
    return ConsumerGroupDescribeDescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members, default_assignor),
        members=tuple(_member(group, each, metadata) for each in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, metadata: Metadata) -> ConsumerGroupDescribeMember:
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex or "",  # As Kafka says it of none.
        assignment=_assignment(_held(member), metadata),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), metadata),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _held(member: ConsumerMember) -> dict[UUID, frozenset[int]]:
    """Return the partitions that no other member may have yet.

    The assigned ones, and those pending revocation.
    """
    return {
        topic_id: frozenset((*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())))
        for topic_id in {**member.assigned, **member.revoking}
    }


def _assignment(
    partitions: Mapping[UUID, Collection[int]], metadata: Metadata
) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=tuple(
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id,
                topic_name=metadata.topics_by_id[topic_id].name,
                partitions=tuple(sorted(partitions[topic_id])),
            )
            for topic_id in sorted(partitions)
            if topic_id in metadata.topics_by_id
        )
    )
