"""JoinGroup: new members, members that come back, and ids given in advance (KIP-394)."""

from kohort.broker.group.classic.group import ClassicGroup, Member, bytes_of, unique_by_name
from kohort.broker.group.classic.member_metadata import (
    SMALL_BYTES,
    fits_join,
    new_member,
    rebalance_timeout_ms,
)
from kohort.broker.group.classic.parking import dismiss, join_error, park_join
from kohort.broker.group.classic.rebalancing import (
    complete_join_if_all_joined,
    join_success,
    joined_members,
    prepare_rebalance,
    rebalance_or_complete,
)
from kohort.broker.group.classic.sessions import remember_given_id
from kohort.broker.group.classic.static_membership import replace_static_member
from kohort.broker.group.classic.timers import end_session, extend_session
from kohort.broker.group.commands import Command, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import CauseKind, MemberIdGiven, MemberJoined, MemberRefused, MemberRejoined
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.notes import client_reason, fields_of, member_cause
from kohort.broker.group.rebalance_facts import Rejoin
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

VERSION_OF_KNOWN_MEMBER_IDS = 4  # From here on a dynamic member must join with an id (KIP-394).
_OF_GROUPS = JoinGroup, SyncGroup, Heartbeat, LeaveGroup


def join(turn: Turn, group: ClassicGroup | None, command: JoinGroup) -> None:
    """Answer the JoinGroup to a classic group, or park it until the join phase ends."""
    try:
        check_request(turn, command)
        _join(turn, group, command)
    except ApiError as error:
        forgets_id = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        refuse(turn, command, error.code, "" if forgets_id else command.message.member_id)


def join_instead(turn: Turn, former: AnyGroup, command: JoinGroup) -> None:
    """Join a new classic group that replaces an empty group of another kind."""
    try:
        check_request(turn, command)
        _check_new(turn, command.message)
    except ApiError as error:
        refuse(turn, command, error.code)
        return
    for record in turn.groups.kinds.tombstones(former):
        turn.log(record)
    _join_without_id(turn, turn.new_group(former.group_id, ClassicGroup), command)


def refuse_kind(turn: Turn, _group: AnyGroup, command: JoinGroup) -> None:
    """Refuse a classic member in a group of a kind without classic members."""
    code = final_error(command, turn.config) or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refuse(turn, command, code)


def final_error(command: Command, config: GroupConfig) -> ErrorCode | None:
    """Return the error code of a request that is invalid for any group, or None.

    It is answered at once, also while the shard loads (Kafka: GroupCoordinatorService).
    """
    if isinstance(command, _OF_GROUPS) and not command.message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(command, JoinGroup):
        shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest_ms <= command.message.session_timeout_ms <= longest_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def check_request(turn: Turn, command: JoinGroup) -> None:
    """Check the JoinGroup without its group. Raises: ApiError."""
    code = final_error(command, turn.config)
    if code is not None:
        raise ApiError(code)


def _join(turn: Turn, group: ClassicGroup | None, command: JoinGroup) -> None:
    message = command.message
    if group is None:
        _check_new(turn, message)
        group = ClassicGroup(message.group_id, turn.groups.shard_bytes)
        turn.groups.by_id[message.group_id] = group  # Blank, so that nothing has to be logged of it.
    _check_capacity(turn, group, message.member_id)
    _check_room(turn, group, message)
    if not group.supports(message.protocol_type, message.protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if message.member_id:
        _join_with_id(turn, group, command)
    else:
        _join_without_id(turn, group, command)


def _check_new(turn: Turn, message: JoinGroupRequest) -> None:
    """Pass the first member of a group. Raises: ApiError."""
    if message.member_id:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not (message.protocol_type and message.protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _check_room(turn, None, message)


def _check_capacity(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Raise GROUP_MAX_SIZE_REACHED where there is no room (Kafka: acceptJoiningMember)."""
    limit = turn.config.group_max_size
    if group.state is GroupState.EMPTY:
        return
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        if group.awaiting_joins < limit or (member is not None and member.awaiting_join is not None):
            return
    elif member is not None or len(group.members) < limit:
        return
    _drop_for_capacity(turn, group, member_id)
    raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _check_room(turn: Turn, group: ClassicGroup | None, message: JoinGroupRequest) -> None:
    """Raise GROUP_MAX_SIZE_REACHED where there is no room for the member's metadata.

    A member whose new metadata is refused stays a member with its former metadata until its session ends.
    """
    if bytes_of(message.protocols) <= SMALL_BYTES or fits_join(turn, group, message):
        return
    if group is not None and message.member_id in group.pending_members:
        _drop_for_capacity(turn, group, message.member_id)
    raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _drop_for_capacity(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Remove a member, or a member id given in advance, because the group is full."""
    if group.pending_members.pop(member_id, None) is not None:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    member = group.members.get(member_id)
    if member is not None:
        dismiss(turn, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)
        end_session(turn, group, member)
    complete_join_if_all_joined(turn, group)


def _join_without_id(turn: Turn, group: ClassicGroup, command: JoinGroup) -> None:
    message = command.message
    if message.group_instance_id is not None:
        if message.group_instance_id in group.static_members:
            replace_static_member(turn, group, command)
        else:
            _add_member(turn, group, command, command.member_id)
    elif command.version >= VERSION_OF_KNOWN_MEMBER_IDS:
        _give_member_id(turn, group, command)
    else:
        _add_member(turn, group, command, command.member_id)


def _give_member_id(turn: Turn, group: ClassicGroup, command: JoinGroup) -> None:
    """Answer MEMBER_ID_REQUIRED; the id holds for a session timeout."""
    deadline_ms = turn.now_ms + command.message.session_timeout_ms
    group.pending_members[command.member_id] = deadline_ms
    turn.set_timer(SessionTimer(group.group_id, command.member_id), deadline_ms)
    remember_given_id(turn, group.group_id, command.member_id)
    turn.note(
        MemberIdGiven(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=command.member_id,
            client_id=command.client_id,
            client_host=command.client_host,
        )
    )
    turn.reply(
        command.request_id, join_error(ErrorCode.MEMBER_ID_REQUIRED, command.member_id, command.version)
    )


def _join_with_id(turn: Turn, group: ClassicGroup, command: JoinGroup) -> None:
    message = command.message
    if message.member_id in group.pending_members and message.group_instance_id is None:
        _add_member(turn, group, command, message.member_id)
        return
    member = group.check_member(message.member_id, message.group_instance_id)
    if _has_to_rebalance(group, member, message):
        _rejoin(turn, group, member, command)
    else:  # It missed the answer, or nothing has changed: the current generation once more.
        is_leader = member.member_id == group.leader
        members = joined_members(group) if is_leader else ()
        turn.reply(command.request_id, join_success(group, member.member_id, members))


def _has_to_rebalance(group: ClassicGroup, member: Member, message: JoinGroupRequest) -> bool:
    """Return whether the group needs another generation for a member that rejoins."""
    if group.state is GroupState.PREPARING_REBALANCE or not member.matches(message.protocols):
        return True
    return group.state is GroupState.STABLE and member.member_id == group.leader


def _add_member(turn: Turn, group: ClassicGroup, command: JoinGroup, member_id: str) -> None:
    """Take a new member in, and rebalance for it."""
    message = command.message
    member = new_member(command, member_id)
    member.is_new = True
    # The timer of the member id becomes the session timer: it fires first, and is then set for the session.
    member.timer_ms = group.pending_members.get(member_id)
    if group.initial_delay is not None:
        group.initial_delay.has_new_member = True
    if not group.members:
        group.protocol_type = message.protocol_type
    group.add(member)
    park_join(turn, group, member, command)
    extend_session(turn, group, member, turn.config.group_new_member_join_timeout_ms)
    cause = member_cause(turn, CauseKind.MEMBER_JOINED, member, message.reason)
    turn.note(
        MemberJoined(
            **fields_of(turn, group, member),
            reason=cause.reason,
        )
    )
    rebalance_or_complete(turn, group, cause)


def _rejoin(turn: Turn, group: ClassicGroup, member: Member, command: JoinGroup) -> None:
    """Let a member join the next generation with its new protocols and timeouts."""
    message = command.message
    is_under_way = group.state is GroupState.PREPARING_REBALANCE  # Then no further cause is needed.
    protocols = unique_by_name(message.protocols)
    rejoin = None if is_under_way else _rejoin_fact(turn, group, member, protocols, message.reason)
    group.update_protocols(member, protocols)
    member.rebalance_timeout_ms = rebalance_timeout_ms(command)
    member.session_timeout_ms = message.session_timeout_ms
    member.last_seen_ms = turn.now_ms
    park_join(turn, group, member, command)
    turn.note(
        MemberRejoined(
            **fields_of(turn, group, member),
            reason=client_reason(message.reason),
        )
    )
    if rejoin is None:
        complete_join_if_all_joined(turn, group)
    else:
        prepare_rebalance(turn, group, rejoin)


def _rejoin_fact(
    turn: Turn,
    group: ClassicGroup,
    member: Member,
    protocols: tuple[JoinGroupRequestProtocol, ...],
    reason: str | None,
) -> Rejoin:
    """Return with which protocols the member comes back, and which it had."""
    return Rejoin(
        member_cause(turn, CauseKind.SUBSCRIPTION_CHANGED, member, reason),
        is_leader=member.member_id == group.leader,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        former=member.protocols,
        current=protocols,
    )


def refuse(turn: Turn, command: JoinGroup, code: ErrorCode, member_id: str = "") -> None:
    """Answer with the error, and with the member id for the next JoinGroup."""
    message = command.message
    turn.reply(command.request_id, join_error(code, member_id, command.version))
    turn.note(
        MemberRefused(
            group_id=message.group_id,
            at_ms=turn.now_ms,
            member_id=message.member_id,
            client_id=command.client_id,
            client_host=command.client_host,
            group_instance_id=message.group_instance_id,
            error=code.name,
        )
    )
