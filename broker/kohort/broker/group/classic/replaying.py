"""The only place where logged state changes: live, while loading, and on a follower alike."""

from kohort.broker.group.classic.member import Member, loaded_member
from kohort.broker.group.group import CLASSIC, Group
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import ShardState
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)


def replay_offset(groups: ShardState, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Keep, or with None forget, a committed offset, over what transactions have written before."""
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
        group = groups.get_or_create(key.group)
    offsets = group.offsets.get(key.topic)
    if offsets is None:
        offsets = group.offsets[key.topic] = {}
    offsets[key.partition] = value


def replay_group(groups: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Take over what the log says of a group; with None the group is gone."""
    group = groups.by_id.get(key.group)
    if value is not None:
        if group is not None and group.group_type != CLASSIC:  # What was written last counts.
            del groups.by_id[key.group]
            groups.get_or_create(key.group).offsets = group.offsets
        _adopt(groups.get_or_create(key.group), value)
        return
    if group is None or group.group_type != CLASSIC:
        return
    del groups.by_id[key.group]
    assert not group.awaiting_joins, group
    group.become(GroupState.DEAD, group.state_since_ms)
    group.let_go()
    if group.offsets:  # They have records of their own, which go on as those of a simple group.
        groups.get_or_create(key.group).offsets = group.offsets


def _forget_offset(group: Group, key: OffsetCommitKey) -> None:
    offsets = group.offsets.get(key.topic)
    if offsets is None:
        return
    offsets.pop(key.partition, None)
    if not offsets:
        del group.offsets[key.topic]


def _adopt(group: Group, value: GroupMetadataValue) -> None:
    """Let the group stand as logged: Stable with these members, or Empty without any.

    A live group has just these members, in CompletingRebalance or with a static one replaced: they only
    get their assignments. A loading group takes the members from the record.
    """
    group.metadata = value
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    logged = {each.member_id for each in value.members}
    for member_id in [each for each in group.members if each not in logged]:
        group.remove(member_id)
    for metadata in value.members:
        _adopt_member(group, value.protocol, metadata)
    group.leader = value.leader
    group.read_subscriptions()
    group.are_assignments_void = False
    state = GroupState.STABLE if value.members else GroupState.EMPTY
    if group.rebalance is not None:
        group.become(state, value.current_state_timestamp)
        group.rebalance = None
    else:  # Loading, which knows nothing of the ways between, or a static member was replaced.
        group.state = state
    group.state_since_ms = value.current_state_timestamp


def _adopt_member(group: Group, protocol_name: str | None, metadata: MemberMetadata) -> None:
    member: Member | None = group.members.get(metadata.member_id)
    if member is None or member.metadata(protocol_name) != metadata.subscription:
        if member is not None:
            group.remove(metadata.member_id)
        member = loaded_member(metadata, protocol_name)
        group.add(member)
    group.assign(member, metadata.assignment)
