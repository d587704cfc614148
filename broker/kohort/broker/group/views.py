"""A group for people: how it stands, whom it waits for, why it rebalanced. `msgspec.json` writes it."""

import msgspec

from kohort.broker.group.events import Cause, RebalanceReport, Waited
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.rebalance import Rebalance


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A member: who it is, what it reads, and whether the group hears of it."""

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


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True):
    """The rebalance in progress: since when, why, who has come and who has not."""

    cause: Cause
    further_causes: tuple[Cause, ...]
    started_ms: int
    ongoing_ms: int
    deadline_ms: int | None
    waited_for: tuple[Waited, ...]
    waits_for_member_ids: tuple[str, ...]


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members and its rebalances, the newest last."""

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
    rebalance: RebalanceView | None
    history: tuple[RebalanceReport, ...]


def group_view(
    group: AnyGroup,
    members: tuple[MemberView, ...],
    rebalance: RebalanceView | None,
    *,
    protocol_name: str | None = None,
    leader: str | None = None,
    pending_member_ids: tuple[str, ...] = (),
) -> GroupView:
    """Return the group with these members."""
    return GroupView(
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
        rebalance=rebalance,
        history=tuple(group.history),
    )


def rebalance_view(
    rebalance: Rebalance,
    now_ms: int,
    *,
    deadline_ms: int | None,
    waited_for: tuple[Waited, ...],
    waits_for_member_ids: tuple[str, ...],
) -> RebalanceView:
    """Return the rebalance in progress."""
    return RebalanceView(
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        ongoing_ms=now_ms - rebalance.started_ms,
        deadline_ms=deadline_ms,
        waited_for=waited_for,
        waits_for_member_ids=waits_for_member_ids,
    )
