"""A consumer group for people."""

from uuid import UUID

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember, MemberState
from kohort.broker.group.epochs.views import awaited_member_ids, listed, member_view
from kohort.broker.group.views import GroupStatus, MemberView, group_status


def status(group: ConsumerGroup, now_ms: int) -> GroupStatus:
    """Return the current state of the group; an unknown topic is shown by its id."""
    members = tuple(_member_view(group, each, now_ms) for each in group.members.values())
    return group_status(group, members, waits_for_member_ids=awaited_member_ids(group))


def _waits_for(group: ConsumerGroup, member: ConsumerMember) -> str | None:
    """Return as text why the member lacks its target assignment, and which member causes it."""
    if member.is_revoking:
        given_up = [(topic_id, index) for topic_id, each in member.revoking.items() for index in each]
        return f"itself: it has yet to give up {_names(group, given_up)}"
    if member.state is not MemberState.UNRELEASED:
        return f"its own {awaited.request}" if (awaited := group.awaited.get(member.member_id)) else None
    held: dict[str, list[tuple[UUID, int]]] = {}
    for topic_id, indexes in group.targets.get(member.member_id, {}).items():
        for index in sorted(indexes):
            holder = group.owner(topic_id, index)
            if holder is not None and holder != member.member_id:
                held.setdefault(holder, []).append((topic_id, index))
    words = (f"{holder}, which has yet to give up {_names(group, each)}" for holder, each in held.items())
    return "; ".join(words) or "its next heartbeat"


def _protocols(member: ConsumerMember) -> tuple[str, ...]:
    """Return the assignor that the member asks for, or the protocols of a classic one."""
    if member.classic is not None:
        return tuple(name for name, _ in member.classic.protocols)
    return () if member.server_assignor is None else (member.server_assignor,)


def _names(group: ConsumerGroup, partitions: list[tuple[UUID, int]]) -> str:
    return listed([f"{group.topic_names.get(topic, str(topic))}-{index}" for topic, index in partitions])


def _member_view(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> MemberView:
    return member_view(
        group,
        member,
        now_ms,
        protocols=_protocols(member),
        topics=tuple(sorted({*member.topic_names, *group.regex_topics(member.topic_regex)})),
        partitions=tuple(sorted(group.owners_of({member.member_id: member}))),
        waits_for=_waits_for(group, member),
    )
