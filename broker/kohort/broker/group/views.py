"""A group for people: how it stands, whom it waits for, why it rebalanced. `msgspec.json` writes it."""

import msgspec

from kohort.broker.group.classic.member import Member
from kohort.broker.group.events import Cause, RebalanceReport, Waited
from kohort.broker.group.group import CLASSIC, CONSUMER, SHARE, STREAMS, Group
from kohort.broker.group.member_view import MemberView
from kohort.broker.group.state import GroupState
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True):
    """The rebalance in progress: since when, why, who has come and who has not."""

    cause: Cause
    further_causes: tuple[Cause, ...]
    started_ms: int
    ongoing_ms: int
    deadline_ms: int | None
    waited_for: tuple[Waited, ...]
    waits_for_member_ids: tuple[str, ...]


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members and its rebalances, the newest last."""

    group_id: str
    state: str
    state_since_ms: int
    protocol_type: str
    protocol_name: str | None
    generation_id: int
    leader: str | None
    members: tuple[MemberView, ...]
    pending_member_ids: tuple[str, ...]
    committed_partitions: int
    rebalance: RebalanceView | None
    history: tuple[RebalanceReport, ...]


def view_of(group: Group, now_ms: int) -> GroupView:
    """Return the group as it stands now."""
    return GroupView(
        group_id=group.group_id,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name,
        generation_id=group.generation_id,
        leader=group.leader,
        members=_member_views(group, now_ms),
        pending_member_ids=tuple(group.pending_members),
        committed_partitions=sum(len(each) for each in group.offsets.values()),
        rebalance=_rebalance_view(group, now_ms),
        history=tuple(group.history),
    )


def _member_views(group: Group, now_ms: int) -> tuple[MemberView, ...]:
    if group.group_type == CLASSIC:
        return tuple(_member_view(group, each, now_ms) for each in group.members.values())
    # Imported where there is such a group.
    if group.group_type == SHARE:
        from kohort.broker.group.share import describing  # noqa: PLC0415

        return describing.member_views(group, now_ms)
    if group.group_type == STREAMS:
        from kohort.broker.group.streams import describing as streams_describing  # noqa: PLC0415

        return streams_describing.member_views(group, now_ms)
    from kohort.broker.group.consumer.views import member_views  # noqa: PLC0415

    return member_views(group, now_ms)


def _member_view(group: Group, member: Member, now_ms: int) -> MemberView:
    waits_for = "JoinGroup" if member.awaiting_join is not None else None
    if member.awaiting_sync is not None:
        waits_for = "SyncGroup"
    is_consumer = group.protocol_type == CONSUMER
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=member.member_id == group.leader,
        protocols=tuple(each.name for each in member.protocols),
        topics=_topics(member) if is_consumer else (),
        partitions=assigned_partitions(member.assignment) if is_consumer else (),
        waits_for=waits_for,
        last_seen_ms=member.last_seen_ms,
        session_left_ms=max(member.session_deadline_ms - now_ms, 0),
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def _topics(member: Member) -> tuple[str, ...]:
    try:
        return ConsumerProtocolSubscription.decode_versioned(member.protocols[0].metadata).topics
    except WireError:
        return ()


def _rebalance_view(group: Group, now_ms: int) -> RebalanceView | None:
    rebalance = group.rebalance
    if rebalance is None:
        return None
    if group.group_type == STREAMS:
        from kohort.broker.group.streams import describing  # noqa: PLC0415

        return describing.rebalance_view(group, rebalance, now_ms)
    if group.group_type != CLASSIC:
        from kohort.broker.group.consumer.views import rebalance_view  # noqa: PLC0415

        return rebalance_view(group, rebalance, now_ms)
    is_joining = group.state is GroupState.PREPARING_REBALANCE
    absent = (
        [each.member_id for each in group.members.values() if each.awaiting_join is None]
        if is_joining
        else list(group.pending_syncs)
    )
    return RebalanceView(
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        ongoing_ms=now_ms - rebalance.started_ms,
        deadline_ms=group.join_deadline_ms if is_joining else group.sync_deadline_ms,
        waited_for=rebalance.waits(now_ms) if is_joining else rebalance.waited_for,
        waits_for_member_ids=(*absent, *(group.pending_members if is_joining else ())),
    )
