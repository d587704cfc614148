"""The members of a consumer group for people."""

from uuid import UUID

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember, MemberState
from kohort.broker.group.group import Group
from kohort.broker.group.member_view import MemberView
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.views import RebalanceView

PARTITIONS_TOLD = 8


def member_views(group: Group, now_ms: int) -> tuple[MemberView, ...]:
    """Return every member with what it has; a topic that was not seen yet goes by its id."""
    assert isinstance(group, ConsumerGroup), group
    return tuple(_view(group, each, now_ms) for each in group.consumer_members.values())


def rebalance_view(group: Group, rebalance: Rebalance, now_ms: int) -> RebalanceView:
    """Return the rebalance in progress: who has yet to come to the newest epoch, or to give something up."""
    assert isinstance(group, ConsumerGroup), group
    return RebalanceView(
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        ongoing_ms=now_ms - rebalance.started_ms,
        deadline_ms=None,
        waited_for=rebalance.waits(now_ms),
        waits_for_member_ids=tuple(
            each.member_id
            for each in group.consumer_members.values()
            if each.epoch < group.epoch or each.state is MemberState.UNREVOKED
        ),
    )


def _waits_for(group: ConsumerGroup, member: ConsumerMember) -> str | None:
    """Return in words what keeps the member from what it shall have, and who."""
    if member.state is MemberState.UNREVOKED:
        given_up = [(topic_id, index) for topic_id, each in member.revoking.items() for index in each]
        return f"itself: it has yet to give up {_places(group, given_up)}"
    if member.state is not MemberState.UNRELEASED:
        return f"its own {awaited.request}" if (awaited := group.awaited.get(member.member_id)) else None
    held: dict[str, list[tuple[UUID, int]]] = {}
    for topic_id, indexes in group.targets.get(member.member_id, {}).items():
        for index in sorted(indexes):
            holder = group.owner(topic_id, index)
            if holder is not None and holder != member.member_id:
                held.setdefault(holder, []).append((topic_id, index))
    words = (f"{holder}, which has yet to give up {_places(group, each)}" for holder, each in held.items())
    return "; ".join(words) or "its next heartbeat"


def _protocols(member: ConsumerMember) -> tuple[str, ...]:
    """Return the assignor that the member asks for, or the protocols of a classic one."""
    if member.classic is not None:
        return tuple(name for name, _ in member.classic.protocols)
    return () if member.server_assignor is None else (member.server_assignor,)


def _places(group: ConsumerGroup, places: list[tuple[UUID, int]]) -> str:
    told = [
        f"{group.topic_names.get(topic, str(topic))}-{index}" for topic, index in places[:PARTITIONS_TOLD]
    ]
    more = len(places) - PARTITIONS_TOLD
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _view(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> MemberView:
    session = group.sessions.get(member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        protocols=_protocols(member),
        topics=tuple(sorted({*member.topic_names, *group.regex_topics(member.topic_regex)})),
        partitions=tuple(
            sorted(
                (group.topic_names.get(topic_id, str(topic_id)), index)
                for topic_id, indexes in member.assigned.items()
                for index in indexes
            )
        ),
        waits_for=_waits_for(group, member),
        last_seen_ms=0 if session is None else session.last_seen_ms,
        session_left_ms=0 if session is None else max(session.deadline_ms - now_ms, 0),
        session_timeout_ms=0 if session is None else session.deadline_ms - session.last_seen_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )
