"""The members of a consumer group for people."""

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember, MemberState
from kohort.broker.group.group import Group
from kohort.broker.group.member_view import MemberView

_WAITS = {
    MemberState.UNREVOKED: "its own revocation",
    MemberState.UNRELEASED: "partitions that others have not given up",
}


def member_views(group: Group, now_ms: int) -> tuple[MemberView, ...]:
    """Return every member with what it has; a topic that was not seen yet goes by its id."""
    assert isinstance(group, ConsumerGroup), group
    return tuple(_view(group, each, now_ms) for each in group.consumer_members.values())


def _view(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> MemberView:
    session = group.sessions.get(member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        protocols=() if member.server_assignor is None else (member.server_assignor,),
        topics=tuple(sorted({*member.topic_names, *group.regex_topics(member.topic_regex)})),
        partitions=tuple(
            sorted(
                (group.topic_names.get(topic_id, str(topic_id)), index)
                for topic_id, indexes in member.assigned.items()
                for index in indexes
            )
        ),
        waits_for=_WAITS.get(member.state),
        last_seen_ms=0 if session is None else session.last_seen_ms,
        session_left_ms=0 if session is None else max(session.deadline_ms - now_ms, 0),
        session_timeout_ms=0 if session is None else session.deadline_ms - session.last_seen_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )
