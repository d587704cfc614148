"""DescribeGroups: a classic group and its members, as administrators ask for them."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.commands import DescribeGroup
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kohort.protocol.text import short_text

VERSION_OF_ERROR_MESSAGES = 6


def describe_group(turn: Turn, command: DescribeGroup) -> None:
    """Answer with the group and its members; an unknown one is Dead, from version 6 on an error."""
    try:
        answer = described(turn.groups.existing(command.group_id, ClassicGroup))
    except ApiError as error:
        has_errors = command.version >= VERSION_OF_ERROR_MESSAGES
        answer = DescribedGroup(
            error_code=error.code if has_errors else ErrorCode.NONE,
            error_message=short_text(error.message or "") if has_errors else None,
            group_id=command.group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=(),
        )
    turn.reply(command.request_id, answer)


def described(group: ClassicGroup) -> DescribedGroup:
    """Return the group as DescribeGroups shows it: protocol and subscriptions of a stable one alone."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            _described_member(group, member, is_stable=is_stable) for member in group.members.values()
        ),
    )


def _described_member(group: ClassicGroup, member: Member, *, is_stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=(member.metadata(group.protocol_name) or b"") if is_stable else b"",
        member_assignment=b"" if group.are_assignments_void else member.assignment,
    )
