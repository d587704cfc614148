"""The coordinators' descriptions of groups, for each of the four types of group in Kafka 4.

A request is about groups of one type, and answers for another's that there is no such group.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kohort.client.admin_values import GroupDescription, MemberDescription
from kohort.client.errors import BrokerError, KohortError
from kohort.client.values import Node
from kohort.protocol.consumer import ConsumerProtocolAssignment
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeMember,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeDescribedGroup,
    StreamsGroupDescribeMember,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeTaskIds,
)
from kohort.protocol.schema import Message

Described = dict[str, GroupDescription | KohortError]
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class GroupType(NamedTuple):
    """How groups of one type are described."""

    ask: Callable[[tuple[str, ...]], Message]
    answer: type[Message]
    read: Callable[[Message, Node], Described]


def _read_classic(answer: Message, node: Node) -> Described:
    assert isinstance(answer, DescribeGroupsResponse)
    return {each.group_id: _classic(each, node) for each in answer.groups}


def _read_consumer(answer: Message, node: Node) -> Described:
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    return {
        each.group_id: _described(CONSUMER, each, node, map(_consumer_member, each.members))
        for each in answer.groups
    }


def _read_share(answer: Message, node: Node) -> Described:
    assert isinstance(answer, ShareGroupDescribeResponse)
    return {
        each.group_id: _described(SHARE, each, node, map(_share_member, each.members))
        for each in answer.groups
    }


def _read_streams(answer: Message, node: Node) -> Described:
    assert isinstance(answer, StreamsGroupDescribeResponse)
    return {each.group_id: _described(STREAMS, each, node, _streams_members(each)) for each in answer.groups}


GROUP_TYPES = (
    GroupType(
        lambda groups: DescribeGroupsRequest(groups=groups, include_authorized_operations=False),
        DescribeGroupsResponse,
        _read_classic,
    ),
    GroupType(
        lambda groups: ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=False),
        ConsumerGroupDescribeResponse,
        _read_consumer,
    ),
    GroupType(
        lambda groups: ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False),
        ShareGroupDescribeResponse,
        _read_share,
    ),
    GroupType(
        lambda groups: StreamsGroupDescribeRequest(group_ids=groups, include_authorized_operations=False),
        StreamsGroupDescribeResponse,
        _read_streams,
    ),
)
"""In the order in which they are asked."""


def _classic(told: DescribedGroup, node: Node) -> GroupDescription | KohortError:
    if told.error_code:
        return BrokerError(told.error_code, told.error_message)
    if told.group_state == "Dead":  # Before version 6 that means that the group does not exist.
        return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {told.group_id} not found.")
    return GroupDescription(
        told.group_id,
        told.group_state,
        told.protocol_type,
        told.protocol_data,
        node,
        tuple(_classic_member(each) for each in told.members),
    )


def _classic_member(told: DescribedGroupMember) -> MemberDescription:
    assignment: dict[str, tuple[int, ...]] = {}
    if told.member_assignment:
        try:
            decoded = ConsumerProtocolAssignment.decode_versioned(told.member_assignment)
        except WireError:  # A group of another protocol, such as Connect's: its bytes are its own.
            decoded = ConsumerProtocolAssignment(assigned_partitions=())
        assignment = {each.topic: tuple(sorted(each.partitions)) for each in decoded.assigned_partitions}
    return MemberDescription(
        told.member_id, told.group_instance_id, told.client_id, told.client_host, assignment
    )


def _described(
    kind: str,
    told: ConsumerGroupDescribeDescribedGroup
    | ShareGroupDescribeDescribedGroup
    | StreamsGroupDescribeDescribedGroup,
    node: Node,
    members: Iterable[MemberDescription],
) -> GroupDescription | KohortError:
    """Return a group of a type in which the broker assigns the partitions."""
    if told.error_code:
        return BrokerError(told.error_code, told.error_message)
    return GroupDescription(
        told.group_id,
        told.group_state,
        kind,
        told.assignor_name or "",
        node,
        tuple(members),
        kind,
        told.group_epoch,
        told.assignment_epoch,
    )


_UPGRADED = {0: False, 1: True}
"""By the type of a member, from version 1 on."""


def _consumer_member(told: ConsumerGroupDescribeMember) -> MemberDescription:
    return MemberDescription(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        _partitions(told.assignment),
        told.member_epoch,
        told.rack_id,
        told.subscribed_topic_names,
        told.subscribed_topic_regex or None,
        _partitions(told.target_assignment),
        upgraded=_UPGRADED.get(told.member_type),
    )


def _partitions(
    told: ConsumerGroupDescribeAssignment | ShareGroupDescribeAssignment,
) -> dict[str, tuple[int, ...]]:
    return {each.topic_name: tuple(sorted(each.partitions)) for each in told.topic_partitions}


def _share_member(told: ShareGroupDescribeMember) -> MemberDescription:
    return MemberDescription(
        told.member_id,
        None,
        told.client_id,
        told.client_host,
        _partitions(told.assignment),
        told.member_epoch,
        told.rack_id,
        told.subscribed_topic_names,
    )


def _streams_members(group: StreamsGroupDescribeDescribedGroup) -> Iterable[MemberDescription]:
    topology = group.topology.subtopologies if group.topology is not None else None
    topics = tuple(sorted({topic for each in topology or () for topic in each.source_topics}))
    return (_streams_member(each, topics) for each in group.members)


def _streams_member(told: StreamsGroupDescribeMember, topics: tuple[str, ...]) -> MemberDescription:
    return MemberDescription(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        _tasks(told.assignment.active_tasks),
        told.member_epoch,
        told.rack_id,
        topics,
        target_assignment=_tasks(told.target_assignment.active_tasks),
        standby_tasks=_tasks(told.assignment.standby_tasks),
        warmup_tasks=_tasks(told.assignment.warmup_tasks),
    )


def _tasks(told: Iterable[StreamsGroupDescribeTaskIds]) -> dict[str, tuple[int, ...]]:
    return {each.subtopology_id: tuple(sorted(each.partitions)) for each in told}
