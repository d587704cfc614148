"""ListGroups and DeleteGroups: what administrators ask of groups of any kind."""

from kohort.broker.group.commands import DeleteGroup, ListGroups
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import GroupDeleted
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.offsets.removal import all_offsets, remove_offsets
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsResponse


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
    group_id = command.group_id
    try:
        group = _check_deletion(turn, group_id)
    except ApiError as error:
        result = DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=error.message)
        turn.reply(command.request_id, result)
        return
    pending = turn.groups.pending.places(group_id)
    remove_offsets(turn, group, list(dict.fromkeys((*all_offsets(group), *pending))), "group deleted")
    for member_id in group.given_ids:
        turn.cancel_timer(SessionTimer(group_id, member_id))
    for record in turn.groups.kinds.tombstones(group):
        turn.log(record)
    turn.note(GroupDeleted(group_id=group_id, at_ms=turn.now_ms, expired=False))
    turn.reply(command.request_id, DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE))


def _check_deletion(turn: Turn, group_id: str) -> AnyGroup:
    """Return the group that may be deleted. Raises: ApiError."""
    group = turn.groups.existing_of_any_kind(group_id)
    if not group.is_empty:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is not empty.")
    return group
