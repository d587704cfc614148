"""What replaying the records of groups with epochs has in common.

While a log is loaded records come in the order in which each key was last written, so that any of them may be
a group's or a member's first.
"""

from typing import Protocol, TypeVar

from kohort.broker.group.epochs.group import AnyEpochGroup
from kohort.broker.group.turn import ShardState

G = TypeVar("G", bound=AnyEpochGroup)


class Target(Protocol):
    """What the log says of the targets of a group."""

    @property
    def assignment_epoch(self) -> int:
        """The group epoch that they were made for."""
        ...

    @property
    def assignment_timestamp(self) -> int:
        """When they were made; 0 where nobody knows."""
        ...


def made_unless_gone(value: object, groups: ShardState, group_id: str, kind: type[G]) -> G | None:
    """Return the group for a record with a value, made if need be; for a tombstone only one that is known."""
    return groups.find(group_id, kind) if value is None else groups.group_of_kind(group_id, kind)


def forget_group(groups: ShardState, group_id: str, kind: type[G]) -> None:
    """Forget the group, if there is one of that kind."""
    group = groups.find(group_id, kind)
    if group is not None:
        groups.forget(group)


def drop_member(groups: ShardState, group_id: str, member_id: str, kind: type[G]) -> None:
    """Forget the member, if there is one."""
    group = groups.find(group_id, kind)
    if group is not None:
        group.drop_member(member_id)


def drop_target(groups: ShardState, group_id: str, member_id: str, kind: type[G]) -> None:
    """Forget what the member shall have."""
    group = groups.find(group_id, kind)
    if group is not None:
        group.targets.pop(member_id, None)


def keep_target_epoch(
    groups: ShardState, group_id: str, value: Target | None, kind: type[G], first: int
) -> None:
    """Keep for which epoch the targets were made; `first` is that of a group for which none were."""
    group = made_unless_gone(value, groups, group_id, kind)
    if group is not None:
        group.assignment_epoch = first if value is None else value.assignment_epoch
        group.assigned_at_ms = None if value is None else value.assignment_timestamp or None
        group.refresh()
