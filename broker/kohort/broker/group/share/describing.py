"""ShareGroupDescribe: a share group with its epochs, its members, and what they read."""

from kohort.broker.group.consumer.subscriptions import Metadata
from kohort.broker.group.group import Group
from kohort.broker.group.member_view import MemberView
from kohort.broker.group.share.assignor import NAME
from kohort.broker.group.share.commands import ShareGroupDescribe, describe_error
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeMember,
    ShareGroupDescribeTopicPartitions,
)


def describe(turn: Turn, command: ShareGroupDescribe) -> None:
    """Answer with the group, or with what is wrong with asking for it."""
    group = turn.groups.by_id.get(command.group_id)
    if isinstance(group, ShareGroup):
        turn.reply(command.request_id, described(group, command.metadata))
        return
    words = "not found" if group is None else "is not a share group"
    answer = describe_error(
        command.group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} {words}."
    )
    turn.reply(command.request_id, answer)


def described(group: ShareGroup, metadata: Metadata) -> ShareGroupDescribeDescribedGroup:
    """Return the group; topics that are gone are left out."""
    return ShareGroupDescribeDescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        members=tuple(_member(each, metadata) for each in group.share_members.values()),
    )


def _member(member: ShareMember, metadata: Metadata) -> ShareGroupDescribeMember:
    return ShareGroupDescribeMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        assignment=ShareGroupDescribeAssignment(
            topic_partitions=tuple(
                ShareGroupDescribeTopicPartitions(
                    topic_id=topic_id,
                    topic_name=metadata.topics_by_id[topic_id].name,
                    partitions=tuple(sorted(member.assigned[topic_id])),
                )
                for topic_id in sorted(member.assigned)
                if topic_id in metadata.topics_by_id
            )
        ),
    )


def member_views(group: Group, now_ms: int) -> tuple[MemberView, ...]:
    """Return every member for people."""
    assert isinstance(group, ShareGroup), group
    return tuple(_view(group, each, now_ms) for each in group.share_members.values())


def _view(group: ShareGroup, member: ShareMember, now_ms: int) -> MemberView:
    session = group.sessions.get(member.member_id)
    names = {topic_id: topic.name for topic_id, topic in group.initialized.items()}
    return MemberView(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        protocols=(NAME,),
        topics=member.topic_names,
        partitions=tuple(
            sorted(
                (names.get(topic_id, str(topic_id)), index)
                for topic_id, indexes in member.assigned.items()
                for index in indexes
            )
        ),
        waits_for=None,
        last_seen_ms=0 if session is None else session.last_seen_ms,
        session_left_ms=0 if session is None else max(session.deadline_ms - now_ms, 0),
        session_timeout_ms=0 if session is None else session.deadline_ms - session.last_seen_ms,
        rebalance_timeout_ms=0,
    )
