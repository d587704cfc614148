"""A group as its coordinator knows it, for people: its members, and those it waits for."""

import msgspec

from kohort.broker.group.group import AnyGroup


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A member, its subscription, and whether it is alive."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    protocols: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    waits_for: str | None
    last_seen_ms: int
    session_left_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members."""

    group_id: str
    state: str
    state_since_ms: int
    protocol_type: str
    protocol_name: str | None
    generation_id: int
    leader: str | None
    members: tuple[MemberView, ...]
    pending_member_ids: tuple[str, ...]
    committed_partitions: int


class GroupStatus(GroupFacts, frozen=True, kw_only=True):
    """A group, and the members that a rebalance waits for; until `deadline_ms` if there is one."""

    waits_for_member_ids: tuple[str, ...]
    deadline_ms: int | None


def group_status(
    group: AnyGroup,
    members: tuple[MemberView, ...],
    *,
    protocol_name: str | None = None,
    leader: str | None = None,
    pending_member_ids: tuple[str, ...] = (),
    waits_for_member_ids: tuple[str, ...] = (),
    deadline_ms: int | None = None,
) -> GroupStatus:
    """Return the group with these members."""
    return GroupStatus(
        group_id=group.group_id,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        protocol_type=group.protocol_type or "",
        protocol_name=protocol_name,
        generation_id=group.generation_id,
        leader=leader,
        members=members,
        pending_member_ids=pending_member_ids,
        committed_partitions=sum(len(each) for each in group.offsets.values()),
        waits_for_member_ids=waits_for_member_ids,
        deadline_ms=deadline_ms,
    )
