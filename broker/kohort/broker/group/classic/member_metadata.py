"""The metadata that members send, and whether there is room for it and for the assignments of leaders.

In Kafka the largest record of `__consumer_offsets` (1 MiB) bounds the metadata and assignments of a group:
a SyncGroup of the leader fails where the record would be larger. Here the core counts the bytes.
"""

from collections.abc import Mapping

from kohort.broker.group.classic.group import ClassicGroup, Member, bytes_of
from kohort.broker.group.commands import JoinGroup
from kohort.broker.group.turn import Turn
from kohort.protocol.messages.join_group import JoinGroupRequest

SMALL_BYTES = 1_024
"""A member with less metadata is always accepted: it uses as much memory without any metadata."""


def fits_join(turn: Turn, group: ClassicGroup | None, message: JoinGroupRequest) -> bool:
    """Return whether there is room for the member's new metadata in place of its former metadata."""
    metadata_bytes = bytes_of(message.protocols)
    if group is None:
        return _fits(turn, 0, metadata_bytes)
    member_id = message.member_id
    if not member_id and message.group_instance_id is not None:
        member_id = group.static_members.get(message.group_instance_id, "")
    member = group.members.get(member_id)
    before_bytes = 0 if member is None else bytes_of(member.protocols)
    return _fits(turn, group.member_bytes, metadata_bytes - before_bytes)


def fits_assignments(turn: Turn, group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
    """Return whether the leader's assignments fit into the limit, instead of the members' current ones."""
    metadata_bytes = sum(map(len, assignments.values()))
    if metadata_bytes <= SMALL_BYTES * len(assignments):
        return True
    before_bytes = sum(len(each.assignment) for each in group.members.values())
    return _fits(turn, group.member_bytes, metadata_bytes - before_bytes)


def _fits(turn: Turn, group_bytes: int, more_bytes: int) -> bool:
    if more_bytes <= 0:
        return True
    if group_bytes + more_bytes > turn.config.group_member_bytes_max:
        return False
    taken_bytes = turn.groups.room.member_bytes_with(turn.groups.shard_bytes)
    return taken_bytes + more_bytes <= turn.config.member_bytes_max


def new_member(command: JoinGroup, member_id: str) -> Member:
    """Return the member that a JoinGroup describes."""
    message = command.message
    return Member(
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms(command),
        session_timeout_ms=message.session_timeout_ms,
        protocols=message.protocols,
    )


def rebalance_timeout_ms(command: JoinGroup) -> int:
    """Return how long the member may take to rejoin; version 0 knew the session timeout alone."""
    asked_ms = command.message.rebalance_timeout_ms
    return command.message.session_timeout_ms if asked_ms < 0 else asked_ms
