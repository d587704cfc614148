"""Whether there is room for what members bring: their metadata, and the assignments of their leaders.

In Kafka the largest record that `__consumer_offsets` takes (1 MiB) bounds what the members of a group bring:
the leader's SyncGroup fails where the group's record would be larger. Here the core counts.
"""

from collections.abc import Mapping

from kohort.broker.group.classic.group import ClassicGroup, bytes_of
from kohort.broker.group.turn import Turn
from kohort.protocol.messages.join_group import JoinGroupRequest

SMALL_BYTES = 1_024
"""A member with less metadata is always let in: it takes as much memory without any metadata."""


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
    """Return whether there is room for what the leader hands out instead of what its members have."""
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
