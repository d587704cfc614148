"""The replay of the common records of groups with epochs.

While a log is loaded, records come in the order in which each key was last written: any of them may be the
first of its group or of its member.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kohort.broker.group.epochs.group import AnyEpochGroup
from kohort.broker.group.epochs.records import EpochRecords
from kohort.broker.group.kind import Replay
from kohort.broker.group.turn import ShardState

G = TypeVar("G", bound=AnyEpochGroup)


def group_unless_tombstone(value: object, groups: ShardState, group_id: str, kind: type[G]) -> G | None:
    """Return the group, a new one if there is none; for a tombstone only an existing group."""
    return groups.find(group_id, kind) if value is None else groups.group_of_kind(group_id, kind)


def replays(
    kind: type[G],
    records: EpochRecords,
    *,
    first_assignment_epoch: int,
    new_member: Callable[[str], Any],
    described: Callable[[Any, Any], Any],
    target: Callable[[Any], Any],
    assigned: Callable[[Any, Any], Any],
    unassigned: Mapping[str, object],
    replay_group: Callable[[G, Any], None] = lambda _group, _value: None,
) -> dict[type, Replay]:
    """Return what replays the records of a kind of group, by the type of the key.

    `described` returns a member with the metadata of a record, `assigned` one with its current assignment;
    `unassigned` are a member's fields without any. `replay_group` applies the kind's other fields.
    """

    def replay_group_epoch(groups: ShardState, key: Any, value: Any) -> None:
        if value is None:
            group = groups.find(key.group_id, kind)
            if group is not None:
                groups.forget(group)
            return
        group = groups.group_of_kind(key.group_id, kind)
        group.generation_id = value.epoch
        group.metadata_hash = value.metadata_hash
        replay_group(group, value)
        group.refresh()

    def replay_member(groups: ShardState, key: Any, value: Any) -> None:
        group = group_unless_tombstone(value, groups, key.group_id, kind)
        if group is None:
            return
        if value is None:
            group.drop_member(key.member_id)
        else:
            group.put_member(described(_member(group, key.member_id), value))

    def replay_target_epoch(groups: ShardState, key: Any, value: Any) -> None:
        group = group_unless_tombstone(value, groups, key.group_id, kind)
        if group is not None:
            group.assignment_epoch = first_assignment_epoch if value is None else value.assignment_epoch
            group.assigned_at_ms = None if value is None else value.assignment_timestamp or None
            group.refresh()

    def replay_target(groups: ShardState, key: Any, value: Any) -> None:
        group = group_unless_tombstone(value, groups, key.group_id, kind)
        if group is None:
            return
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = target(value)

    def replay_current(groups: ShardState, key: Any, value: Any) -> None:
        group = group_unless_tombstone(value, groups, key.group_id, kind)
        if group is None:
            return
        if value is not None:
            group.put_member(
                msgspec.structs.replace(
                    assigned(_member(group, key.member_id), value),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                )
            )
        elif key.member_id in group.members:
            member = group.members[key.member_id]
            group.put_member(msgspec.structs.replace(member, epoch=0, previous_epoch=0, **unassigned))

    def _member(group: G, member_id: str) -> Any:
        return group.members.get(member_id) or new_member(member_id)

    return {
        records.group_epoch: replay_group_epoch,
        records.member: replay_member,
        records.target_epoch: replay_target_epoch,
        records.target: replay_target,
        records.current: replay_current,
    }
