"""A classic group for people."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.state import GroupState
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.broker.group.views import GroupStatus, MemberView, group_status
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError


def status(group: ClassicGroup, now_ms: int) -> GroupStatus:
    """Return the current state of the group."""
    members = group.members.values()
    pending = tuple(group.pending_members)
    if group.state is GroupState.PREPARING_REBALANCE:
        awaited = (*(each.member_id for each in members if each.awaiting_join is None), *pending)
        deadline_ms = group.join_deadline_ms
    else:
        awaited, deadline_ms = tuple(group.pending_syncs), group.sync_deadline_ms
    return group_status(
        group,
        tuple(_member_view(group, each, now_ms) for each in members),
        protocol_name=group.protocol_name,
        leader=group.leader,
        pending_member_ids=pending,
        waits_for_member_ids=awaited,
        deadline_ms=deadline_ms,
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
