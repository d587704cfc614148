"""DescribeGroups, ListGroups, DeleteGroups: what administrators ask of a group."""

from kohort.broker.group.classic.member import Member
from kohort.broker.group.classic.records import tombstones
from kohort.broker.group.commands import DeleteGroup, DescribeGroup, ListGroups
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import GroupDeleted
from kohort.broker.group.group import CLASSIC, Group
from kohort.broker.group.offsets.removal import all_offsets, remove_offsets
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from kohort.protocol.text import short_text

VERSION_OF_ERROR_MESSAGES = 6


def describe_group(turn: Turn, command: DescribeGroup) -> None:
    """Answer with the group and its members; an unknown one is Dead, from version 6 on an error."""
    group = turn.groups.by_id.get(command.group_id)
    if group is not None and group.group_type == CLASSIC:
        turn.reply(command.request_id, described(group))
        return
    has_errors = command.version >= VERSION_OF_ERROR_MESSAGES
    words = "not found" if group is None else "is not a classic group"
    turn.reply(
        command.request_id,
        DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if has_errors else ErrorCode.NONE,
            error_message=short_text(f"Group {command.group_id} {words}.") if has_errors else None,
            group_id=command.group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=(),
        ),
    )


def described(group: Group) -> DescribedGroup:
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


def list_groups(turn: Turn, command: ListGroups) -> None:
    """Answer with this shard's groups that pass both filters; Kafka asks for NotReady as not_ready."""
    states = {each.lower().replace("not_ready", "notready") for each in command.states_filter}
    types = {each.lower() for each in command.types_filter}
    groups = tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.group_type,
        )
        for group in turn.groups.by_id.values()
        if (not states or group.state.value.lower() in states) and (not types or group.group_type in types)
    )
    turn.reply(
        command.request_id, ListGroupsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, groups=groups)
    )


def delete_group(turn: Turn, command: DeleteGroup) -> None:
    """Delete an empty group and its offsets."""
    try:
        group = _check_deletion(turn, command.group_id)
    except ApiError as error:
        result = DeletableGroupResult(
            group_id=command.group_id, error_code=error.code, error_message=error.message
        )
        turn.reply(command.request_id, result)
        return
    pending = turn.groups.pending.places(command.group_id)
    remove_offsets(turn, group, list(dict.fromkeys((*all_offsets(group), *pending))), "group deleted")
    for member_id in group.pending_members:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    for record in tombstones(group):
        turn.log(record)
    turn.note(GroupDeleted(group_id=group.group_id, at_ms=turn.now_ms, expired=False))
    turn.reply(command.request_id, DeletableGroupResult(group_id=command.group_id, error_code=ErrorCode.NONE))


def _check_deletion(turn: Turn, group_id: str) -> Group:
    """Return the group that may be deleted. Raises: ApiError."""
    group = turn.groups.existing(group_id)
    if not group.is_empty:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is not empty.")
    return group


def _described_member(group: Group, member: Member, *, is_stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=(member.metadata(group.protocol_name) or b"") if is_stable else b"",
        member_assignment=b"" if group.are_assignments_void else member.assignment,
    )
