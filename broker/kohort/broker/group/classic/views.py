"""A classic group for people."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.state import GroupState
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.broker.group.views import GroupView, MemberView, RebalanceView, group_view, rebalance_view
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError


def view(group: ClassicGroup, now_ms: int) -> GroupView:
    """Return the group as it stands now."""
    return group_view(
        group,
        tuple(_member_view(group, each, now_ms) for each in group.members.values()),
        _rebalance_view(group, now_ms),
        protocol_name=group.protocol_name,
        leader=group.leader,
        pending_member_ids=tuple(group.pending_members),
    )


def _member_view(group: ClassicGroup, member: Member, now_ms: int) -> MemberView:
    waits_for = "JoinGroup" if member.awaiting_join is not None else None
    if member.awaiting_sync is not None:
        waits_for = "SyncGroup"
    is_consumer = group.protocol_type == CONSUMER
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
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


def _rebalance_view(group: ClassicGroup, now_ms: int) -> RebalanceView | None:
    rebalance = group.rebalance
    if rebalance is None:
        return None
    if group.state is GroupState.PREPARING_REBALANCE:
        absent = (each.member_id for each in group.members.values() if each.awaiting_join is None)
        return rebalance_view(
            rebalance,
            now_ms,
            deadline_ms=group.join_deadline_ms,
            waited_for=rebalance.waits(now_ms),
            waits_for_member_ids=(*absent, *group.pending_members),
        )
    return rebalance_view(
        rebalance,
        now_ms,
        deadline_ms=group.sync_deadline_ms,
        waited_for=rebalance.waited_for,
        waits_for_member_ids=tuple(group.pending_syncs),
    )
