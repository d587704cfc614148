"""Groups as a log brings them: under an id, in the order in which each record was last written."""

from typing import TypeVar

from kohort.broker.group.group import Group
from kohort.broker.group.turn import ShardState

G = TypeVar("G", bound=Group)


def group_of(groups: ShardState, group_id: str, kind: type[G]) -> G:
    """Return the group of that kind; what was there under its id before was written earlier, and is over.

    Offsets that were there are its own from now on.
    """
    group = groups.by_id.get(group_id)
    if isinstance(group, kind):
        return group
    made = groups.by_id[group_id] = kind(group_id, groups.shard_bytes)
    if group is not None:
        made.offsets = group.offsets
        group.let_go()
    return made


def known(groups: ShardState, group_id: str, kind: type[G]) -> G | None:
    """Return the group, if it is one of that kind."""
    group = groups.by_id.get(group_id)
    return group if isinstance(group, kind) else None


def made_unless_gone(value: object, groups: ShardState, group_id: str, kind: type[G]) -> G | None:
    """Return the group for a record with a value, made if need be; for a tombstone only one that is known."""
    return known(groups, group_id, kind) if value is None else group_of(groups, group_id, kind)


def forget(groups: ShardState, group: Group) -> None:
    """Forget a group that has let its members go; its offsets go on as those of a simple group."""
    del groups.by_id[group.group_id]
    if group.offsets:  # They have records of their own.
        groups.get_or_create(group.group_id).offsets = group.offsets
