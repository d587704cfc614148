"""SyncGroup: the leader sends the assignment, and each member gets its part."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.classic.member_metadata import fits_assignments
from kohort.broker.group.classic.parking import answer_sync, park_sync, sync_error
from kohort.broker.group.classic.rebalancing import (
    end_rebalance,
    prepare_rebalance,
    remove_member,
    stop_waiting_for_syncs,
)
from kohort.broker.group.classic.records import group_record
from kohort.broker.group.classic.timers import extend_session
from kohort.broker.group.commands import SyncGroup
from kohort.broker.group.decision import SyncTimer
from kohort.broker.group.events import CauseKind
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.notes import member_cause
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

VERSION_OF_PROTOCOLS = 5  # From here on a member must say which protocol it takes part in (KIP-559).


def sync(turn: Turn, group: ClassicGroup | None, command: SyncGroup) -> None:
    """Answer the SyncGroup, or park it until the leader's comes."""
    message = command.message
    try:
        member = _check(group, command)
    except ApiError as error:
        turn.reply(command.request_id, sync_error(error.code))
        return
    assert group is not None
    _expect_no_longer(turn, group, member)
    if group.state is GroupState.STABLE:
        turn.reply(command.request_id, _assigned(group, member.assignment))
        return
    assert group.state is GroupState.COMPLETING_REBALANCE, group
    park_sync(turn, member, command.request_id)
    if member.member_id == group.leader:
        _complete_rebalance(turn, group, message)


def refuse_kind(turn: Turn, _group: AnyGroup, command: SyncGroup) -> None:
    """Refuse the SyncGroup: this kind of group has no classic members."""
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if lacks_protocol(command) else ErrorCode.UNKNOWN_MEMBER_ID
    turn.reply(command.request_id, sync_error(code))


def sync_timer_fired(turn: Turn, group: ClassicGroup, key: SyncTimer) -> None:
    """Remove the members that have not synced in time, and start over (KAFKA-12890)."""
    if group.sync_deadline_ms is None:
        return
    if turn.now_ms < group.sync_deadline_ms:
        turn.set_timer(key, group.sync_deadline_ms)
        return
    late = [group.members[member_id] for member_id in group.pending_syncs]
    assert late, group
    cause = member_cause(turn, CauseKind.MEMBER_DID_NOT_SYNC, late[0])
    for member in late:
        remove_member(turn, group, member, "did not sync within the rebalance timeout")
    prepare_rebalance(turn, group, cause)


def lacks_protocol(command: SyncGroup) -> bool:
    """Return whether the request leaves out which protocol its member takes part in."""
    message = command.message
    return command.version >= VERSION_OF_PROTOCOLS and None in (message.protocol_type, message.protocol_name)


def _check(group: ClassicGroup | None, command: SyncGroup) -> Member:
    """Return the member, which may sync now. Raises: ApiError."""
    message = command.message
    if lacks_protocol(command):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not message.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if group is None or group.is_empty:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(message.member_id, message.group_instance_id)
    if message.generation_id != group.generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if _differ(message.protocol_type, group.protocol_type) or _differ(
        message.protocol_name, group.protocol_name
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _expect_no_longer(turn: Turn, group: ClassicGroup, member: Member) -> None:
    if member.member_id in group.pending_syncs:
        del group.pending_syncs[member.member_id]
        if not group.pending_syncs:
            stop_waiting_for_syncs(turn, group)


def _complete_rebalance(turn: Turn, group: ClassicGroup, message: SyncGroupRequest) -> None:
    """Log the assignment and answer the parked SyncGroups; `replay` makes the group Stable."""
    given = {each.member_id: each.assignment for each in message.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    if not fits_assignments(turn, group, assignments):
        _refuse_assignments(turn, group)
        return
    turn.log(group_record(group, assignments, turn.now_ms))
    for member in group.members.values():
        if answer_sync(turn, member, _assigned(group, assignments[member.member_id])):
            extend_session(turn, group, member)
    end_rebalance(turn, group, Outcome.STABLE, assignments)


def _refuse_assignments(turn: Turn, group: ClassicGroup) -> None:
    """Answer the parked SyncGroups with an error and rebalance, as Kafka does for a too large record."""
    for member in group.members.values():
        if answer_sync(turn, member, sync_error(ErrorCode.UNKNOWN_SERVER_ERROR)):
            extend_session(turn, group, member)
    assert group.leader is not None
    prepare_rebalance(
        turn, group, member_cause(turn, CauseKind.ASSIGNMENT_TOO_LARGE, group.members[group.leader])
    )


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
