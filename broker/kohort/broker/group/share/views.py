"""A share group for people."""

from kohort.broker.group.epochs.views import member_view
from kohort.broker.group.share.assignor import NAME
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.views import GroupStatus, MemberView, group_status


def status(group: ShareGroup, now_ms: int) -> GroupStatus:
    """Return the current state of the group."""
    return group_status(group, tuple(_member_view(group, each, now_ms) for each in group.members.values()))


def _member_view(group: ShareGroup, member: ShareMember, now_ms: int) -> MemberView:
    names = {topic_id: topic.name for topic_id, topic in group.initialized.items()}
    return member_view(
        group,
        member,
        now_ms,
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
    )
