"""LeaveGroup: members go at once, alone or several together."""

from collections.abc import Callable
from functools import partial

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.classic.parking import dismiss
from kohort.broker.group.classic.rebalancing import add_cause, complete_join_if_all_joined, prepare_rebalance
from kohort.broker.group.classic.timers import end_session
from kohort.broker.group.commands import LeaveGroup
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import Cause, CauseKind, MemberLeft
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.notes import client_reason, fields_of, member_cause
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

VERSION_OF_BATCHES = 3
Identities = tuple[MemberIdentity, ...]


def leave(turn: Turn, group: ClassicGroup | None, command: LeaveGroup) -> None:
    """Remove members of a classic group; each gets its own error code, from version 3."""
    answer(turn, command, strangers if group is None else partial(_leave_together, turn, group))


def refuse_kind(turn: Turn, _group: AnyGroup, command: LeaveGroup) -> None:
    """Answer UNKNOWN_MEMBER_ID: this kind of group has no classic members."""
    answer(turn, command, strangers)


def answer(turn: Turn, command: LeaveGroup, leave_together: Callable[[Identities], list[ErrorCode]]) -> None:
    """Answer the LeaveGroup with what `leave_together` says of each member."""
    message = command.message
    if not message.group_id:
        turn.reply(command.request_id, leave_answer(ErrorCode.INVALID_GROUP_ID))
        return
    is_batch = command.version >= VERSION_OF_BATCHES
    identities = message.members if is_batch else (MemberIdentity(member_id=message.member_id),)
    turn.reply(command.request_id, _response(identities, leave_together(identities), is_batch=is_batch))


def strangers(identities: Identities) -> list[ErrorCode]:
    """Return UNKNOWN_MEMBER_ID for each."""
    return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)


def _leave_together(turn: Turn, group: ClassicGroup, identities: Identities) -> list[ErrorCode]:
    """Return each one's error code; the group rebalances once for all that left, including unused ids."""
    codes: list[ErrorCode] = []
    causes: list[Cause] = []
    for identity in identities:
        try:
            cause = _leave_one(turn, group, identity)
        except ApiError as error:
            codes.append(error.code)
        else:
            codes.append(ErrorCode.NONE)
            causes.append(cause)
    if ErrorCode.NONE in codes:
        _rebalance_without(turn, group, causes)
    return codes


def _rebalance_without(turn: Turn, group: ClassicGroup, causes: list[Cause]) -> None:
    if group.state is GroupState.PREPARING_REBALANCE:
        for cause in causes:
            add_cause(turn, group, cause)
        complete_join_if_all_joined(turn, group)
    elif not group.is_empty:
        prepare_rebalance(turn, group, causes[0])
        for cause in causes[1:]:
            add_cause(turn, group, cause)


def _leave_one(turn: Turn, group: ClassicGroup, identity: MemberIdentity) -> Cause:
    """Return the cause for a rebalance: for Kafka an unused id is one as well. Raises: ApiError."""
    member_id = identity.member_id
    if member_id in group.pending_members:
        del group.pending_members[member_id]
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
        return Cause(
            CauseKind.MEMBER_LEFT, turn.now_ms, member_id=member_id, reason=client_reason(identity.reason)
        )
    if not member_id:  # An administrator removes a static member by its instance id alone.
        member_id = group.static_members.get(identity.group_instance_id or "", "")
        if not member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(member_id, identity.group_instance_id)
    return _let_go(turn, group, member, client_reason(identity.reason))


def _let_go(turn: Turn, group: ClassicGroup, member: Member, reason: str) -> Cause:
    dismiss(turn, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
    end_session(turn, group, member)
    turn.note(
        MemberLeft(
            **fields_of(turn, group, member),
            reason=reason,
        )
    )
    return member_cause(turn, CauseKind.MEMBER_LEFT, member, reason)


def _response(identities: Identities, codes: list[ErrorCode], *, is_batch: bool) -> LeaveGroupResponse:
    if not is_batch:
        return leave_answer(codes[0])
    return leave_answer(
        ErrorCode.NONE,
        tuple(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
            )
            for identity, code in zip(identities, codes, strict=True)
        ),
    )


def leave_answer(code: ErrorCode, members: tuple[MemberResponse, ...] = ()) -> LeaveGroupResponse:
    """Return the answer with its own error code and those of the members."""
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=members)
