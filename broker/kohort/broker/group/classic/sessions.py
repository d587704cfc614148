"""Heartbeats and session timeouts of classic groups."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.classic.rebalancing import (
    add_cause,
    begin_downgraded,
    complete_join,
    prepare_rebalance,
    remove_member,
)
from kohort.broker.group.classic.timers import extend_session
from kohort.broker.group.commands import ConnectionClosed, Heartbeat
from kohort.broker.group.decision import Decision, Reply, SessionTimer
from kohort.broker.group.events import Cause, CauseKind, GroupLoaded, MemberIdExpired
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.notes import member_cause
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Handler, ShardState, Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

ALIVE = HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.NONE)
REBALANCING = HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(otherwise: Handler, groups: ShardState, command: Heartbeat, now_ms: int) -> Decision:
    """Return the answer at once. The most frequent command: it sets no timer, it moves a deadline.

    `otherwise` answers requests that are not from a member of a classic group in its generation.
    """
    message = command.message
    group = groups.by_id.get(message.group_id)
    member = None if group is None else group.members.get(message.member_id)
    if (
        group is None
        or type(member) is not Member  # None, or of another kind of group; a call less than isinstance.
        or message.generation_id != group.generation_id
        or (message.group_instance_id is not None and message.group_instance_id != member.instance_id)
    ):
        return otherwise(groups, command, now_ms)
    member.last_seen_ms = now_ms
    member.session_deadline_ms = now_ms + member.session_timeout_ms
    response = REBALANCING if group.state is GroupState.PREPARING_REBALANCE else ALIVE
    return Decision((), (Reply(command.request_id, response),))


def refuse_heartbeat(turn: Turn, group: ClassicGroup | None, command: Heartbeat) -> None:
    """Answer a heartbeat that is not from a member in its generation."""
    turn.reply(command.request_id, _refusal(group, command.message))


def refuse_kind(turn: Turn, _group: AnyGroup, command: Heartbeat) -> None:
    """Refuse the heartbeat: this kind of group has no classic members."""
    turn.reply(command.request_id, _refusal(None, command.message))


def resume(turn: Turn, group: ClassicGroup) -> None:
    """Start the sessions of a loaded group's members; a group with too many members rebalances."""
    if not group.members:
        return
    for member in group.members.values():
        extend_session(turn, group, member)
    members = len(group.members)
    turn.note(
        GroupLoaded(
            group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.generation_id, members=members
        )
    )
    if group.leader is None:
        begin_downgraded(turn, group)
    elif members > turn.config.group_max_size:
        prepare_rebalance(turn, group, Cause(CauseKind.OVER_CAPACITY, turn.now_ms))


def session_timer_fired(turn: Turn, group: ClassicGroup, key: SessionTimer) -> None:
    """Remove the member if its session has ended; otherwise set the timer for its end."""
    member = group.members.get(key.member_id)
    if member is not None:
        _end_or_go_on(turn, group, member, key)
    elif key.member_id in group.pending_members:
        _expire_member_id(turn, group, key)


def connection_closed(turn: Turn, command: ConnectionClosed) -> None:
    """Remember when the member's connection closed. Its session continues, as in Kafka: it may return."""
    group = turn.groups.find(command.group_id, ClassicGroup)
    member = None if group is None else group.members.get(command.member_id)
    if member is not None:
        member.connection_closed_ms = turn.now_ms


def _refusal(group: ClassicGroup | None, message: HeartbeatRequest) -> HeartbeatResponse:
    """Return the error of such a heartbeat, in Kafka's order of checks."""
    if not message.group_id:
        return HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.INVALID_GROUP_ID)
    code = ErrorCode.ILLEGAL_GENERATION
    owner = None
    if group is not None and message.group_instance_id is not None:
        owner = group.static_members.get(message.group_instance_id)
    if owner is not None and owner != message.member_id:
        code = ErrorCode.FENCED_INSTANCE_ID
    elif (
        group is None
        or message.member_id not in group.members
        or (owner is None and message.group_instance_id is not None)
    ):
        code = ErrorCode.UNKNOWN_MEMBER_ID
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


def _end_or_go_on(turn: Turn, group: ClassicGroup, member: Member, key: SessionTimer) -> None:
    member.timer_ms = None
    if turn.now_ms < member.session_deadline_ms:
        member.timer_ms = member.session_deadline_ms
        turn.set_timer(key, member.session_deadline_ms)
        return
    if member.is_waiting and not member.is_new:
        return  # Its request is parked, so it can't send heartbeats: the answer starts a new session.
    silent_ms = turn.now_ms - member.last_seen_ms
    cause = member_cause(
        turn,
        CauseKind.MEMBER_EXPIRED,
        member,
        after_ms=silent_ms,
        connection_closed_ms=_closed_ms(member, turn.now_ms),
    )
    remove_member(turn, group, member, "missed its session timeout")
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(turn, group, cause)
        if group.has_all_members_joined:
            complete_join(turn, group)
    else:
        prepare_rebalance(turn, group, cause)


def _closed_ms(member: Member, now_ms: int) -> int:
    """Return for how long the member's connection is closed. 0 if it has sent something since, over
    another."""
    closed_ms = member.connection_closed_ms
    return max(now_ms - closed_ms, 1) if closed_ms and closed_ms >= member.last_seen_ms else 0


def _expire_member_id(turn: Turn, group: ClassicGroup, key: SessionTimer) -> None:
    deadline_ms = group.pending_members[key.member_id]
    if turn.now_ms < deadline_ms:
        turn.set_timer(key, deadline_ms)
        return
    _forget_member_id(turn, group, key.member_id)


def remember_given_id(turn: Turn, group_id: str, member_id: str) -> None:
    """Remember a member id that was given; above the limit, forget the oldest unused one.

    A client gets member ids at no cost, so their number has a limit. A normal client uses its id at once and
    stays far below the limit. A client whose id was forgotten asks for another.
    """
    given = turn.groups.given_member_ids
    given.append((group_id, member_id))
    while len(given) > turn.config.member_ids_given_max:
        oldest_group_id, oldest_id = given.popleft()
        group = turn.groups.find(oldest_group_id, ClassicGroup)
        if group is not None and oldest_id in group.pending_members:
            turn.cancel_timer(SessionTimer(oldest_group_id, oldest_id))
            _forget_member_id(turn, group, oldest_id)


def _forget_member_id(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Forget a member id that was given, and its group if it has nothing else."""
    del group.pending_members[member_id]
    turn.note(MemberIdExpired(group_id=group.group_id, at_ms=turn.now_ms, member_id=member_id))
    if group.is_blank:  # No record has it.
        del turn.groups.by_id[group.group_id]
        return
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join(turn, group)
