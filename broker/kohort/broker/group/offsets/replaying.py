"""The only place where committed offsets change: live, and while loading."""

from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import ShardState
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue


def replay_offset(groups: ShardState, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Store, or with None remove, a committed offset, over earlier writes of transactions."""
    if not groups.pending.is_empty:
        groups.pending.supersede(key)
    keep_offset(groups, key, value)


def keep_offset(groups: ShardState, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Keep, or with None forget, a committed offset; the group comes into being with its first."""
    group = groups.by_id.get(key.group)
    if value is None:
        if group is not None:
            _forget_offset(group, key)
        return
    if group is None:
        group = groups.group_with_offsets(key.group)
    offsets = group.offsets.get(key.topic)
    if offsets is None:
        offsets = group.offsets[key.topic] = {}
    offsets[key.partition] = value


def _forget_offset(group: AnyGroup, key: OffsetCommitKey) -> None:
    offsets = group.offsets.get(key.topic)
    if offsets is None:
        return
    offsets.pop(key.partition, None)
    if not offsets:
        del group.offsets[key.topic]
