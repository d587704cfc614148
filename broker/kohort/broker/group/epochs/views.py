"""Groups with epochs for people."""

from collections.abc import Sequence

from kohort.broker.group.epochs.group import AnyEpochGroup
from kohort.broker.group.epochs.members import EpochMember
from kohort.broker.group.views import MemberView

NAMES_SHOWN = 8


def member_view(
    group: AnyEpochGroup,
    member: EpochMember,
    now_ms: int,
    *,
    protocols: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[tuple[str, int], ...],
    waits_for: str | None,
) -> MemberView:
    """Return the member with its assignment."""
    session = group.sessions.get(member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        protocols=protocols,
        topics=topics,
        partitions=partitions,
        waits_for=waits_for,
        last_seen_ms=0 if session is None else session.last_seen_ms,
        session_left_ms=0 if session is None else max(session.deadline_ms - now_ms, 0),
        session_timeout_ms=0 if session is None else session.deadline_ms - session.last_seen_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def awaited_member_ids(group: AnyEpochGroup) -> tuple[str, ...]:
    """Return the members below the newest epoch, or with partitions to revoke."""
    return tuple(
        each.member_id for each in group.members.values() if each.epoch < group.epoch or each.is_revoking
    )


def listed(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
