"""ShareGroupDescribe: a share group with its epochs, its members, and their assignments."""

from kohort.broker.group.metadata import Metadata
from kohort.broker.group.share.assignor import NAME
from kohort.broker.group.share.commands import ShareGroupDescribe, describe_error
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeMember,
    ShareGroupDescribeTopicPartitions,
)


def describe(turn: Turn, command: ShareGroupDescribe) -> None:
    """Answer with the group, or with the error."""
    try:
        answer = described(turn.groups.existing(command.group_id, ShareGroup), command.metadata)
    except ApiError as error:
        answer = describe_error(command.group_id, error.code, error.message)
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
        members=tuple(_member(each, metadata) for each in group.members.values()),
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
