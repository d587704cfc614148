"""The only place where the logged state of a classic group changes: live, and while loading."""

from kohort.broker.group.classic.group import ClassicGroup, Member, loaded_member
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import ShardState
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)


def replay_group(groups: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Apply the logged value of a group; None deletes the group."""
    if value is not None:
        _adopt(groups.group_of_kind(key.group, ClassicGroup), value)
        return
    group = groups.find(key.group, ClassicGroup)
    if group is not None:
        assert not group.awaiting_joins, group
        group.become(GroupState.DEAD, group.state_since_ms)
        groups.forget(group)


def _adopt(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Set the group to its logged state: Stable with these members, or Empty without any.

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
    if group.is_rebalancing:
        group.become(state, value.current_state_timestamp)
        group.initial_delay = None
    else:  # Loading, which knows nothing of the ways between, or a static member was replaced.
        group.state = state
    group.state_since_ms = value.current_state_timestamp


def _adopt_member(group: ClassicGroup, protocol_name: str | None, metadata: MemberMetadata) -> None:
    member: Member | None = group.members.get(metadata.member_id)
    if member is None or member.metadata(protocol_name) != metadata.subscription:
        if member is not None:
            group.remove(metadata.member_id)
        member = loaded_member(metadata, protocol_name)
        group.add(member)
    group.assign(member, metadata.assignment)
