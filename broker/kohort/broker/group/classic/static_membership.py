"""Static members that join again under a new member id (KIP-345, KIP-814)."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.classic.member_metadata import new_member
from kohort.broker.group.classic.parking import dismiss, park_join
from kohort.broker.group.classic.rebalancing import (
    complete_join_if_all_joined,
    join_success,
    joined_members,
    prepare_rebalance,
)
from kohort.broker.group.classic.records import group_record
from kohort.broker.group.classic.timers import end_session, extend_session
from kohort.broker.group.commands import JoinGroup
from kohort.broker.group.events import CauseKind, MemberFenced, StaticMemberReturned
from kohort.broker.group.notes import fields_of, member_cause
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode

VERSION_OF_SKIP_ASSIGNMENT = 9


def replace_static_member(turn: Turn, group: ClassicGroup, command: JoinGroup) -> None:
    """Let a new member replace the one with its group.instance.id.

    In a stable group whose protocol stays the same no other member notices: the new member gets the
    current generation, and its SyncGroup the former assignment.
    """
    former_leader = group.leader
    member = _take_place(turn, group, command)
    if group.state is GroupState.STABLE and group.protocol_name == group.select_protocol():
        _welcome_back(turn, group, member, command, former_leader)
        return
    park_join(turn, group, member, command)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(turn, group)
        return
    is_stable = group.state is GroupState.STABLE
    kind = CauseKind.PROTOCOLS_CHANGED if is_stable else CauseKind.STATIC_MEMBER_REPLACED
    prepare_rebalance(turn, group, member_cause(turn, kind, member, command.message.reason))


def _take_place(turn: Turn, group: ClassicGroup, command: JoinGroup) -> Member:
    message = command.message
    assert message.group_instance_id is not None
    former = group.members[group.static_members[message.group_instance_id]]
    dismiss(turn, group, former, ErrorCode.FENCED_INSTANCE_ID)
    end_session(turn, group, former)
    member = new_member(command, command.member_id)
    group.replace(former, member)
    extend_session(turn, group, member)
    _note_return(turn, group, former, member)
    return member


def _note_return(turn: Turn, group: ClassicGroup, former: Member, member: Member) -> None:
    turn.note(
        MemberFenced(
            **fields_of(turn, group, former),
            by_member_id=member.member_id,
        )
    )
    stays = group.state is GroupState.STABLE and group.protocol_name == group.select_protocol()
    turn.note(
        StaticMemberReturned(
            **fields_of(turn, group, member),
            former_member_id=former.member_id,
            rebalances=not stays,
        )
    )


def _welcome_back(
    turn: Turn, group: ClassicGroup, member: Member, command: JoinGroup, former_leader: str | None
) -> None:
    """Log the new id under the old assignment, and answer with the current generation."""
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    turn.log(group_record(group, assignments, group.state_since_ms))
    is_leader = member.member_id == group.leader
    if command.version >= VERSION_OF_SKIP_ASSIGNMENT:
        members = joined_members(group) if is_leader else ()
        response = join_success(group, member.member_id, members, skip_assignment=is_leader)
    else:  # An older client would assign again if it knew that it leads: it gets its former id as the leader.
        response = join_success(group, member.member_id, leader=former_leader)
    turn.reply(command.request_id, response)
