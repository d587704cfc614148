"""The past rebalances of each group, within the limit that all groups share.

A rebalance that moves a thousand partitions takes 130 KB: thirty-two of them in each of a hundred groups take
more memory than the broker itself. All rebalances are in `__group_events`.
"""

import msgspec

from kohort.broker.group.events import Move, Outcome, RebalanceCompleted, RebalanceReport, Waited
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import Turn

REBALANCES_KEPT = 32
REPORT_BYTES, MOVE_BYTES, WAITED_BYTES, CAUSE_BYTES, ID_BYTES = 600, 120, 150, 400, 100


def close_rebalance(
    turn: Turn,
    group: AnyGroup,
    outcome: Outcome,
    *,
    generation_id: int,
    members: int,
    protocol_name: str | None,
    waited_for: tuple[Waited, ...],
    moves: tuple[Move, ...],
    leader: str | None = None,
    is_by_broker: bool = False,
) -> None:
    """Add the rebalance in progress to the group's history, and report it in an event."""
    rebalance, now_ms = group.rebalance, turn.now_ms
    assert rebalance is not None
    assigned_ms = now_ms if rebalance.join_completed_ms is None else rebalance.join_completed_ms
    report = RebalanceReport(
        outcome=outcome,
        generation_id=generation_id,
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        join_ms=assigned_ms - rebalance.started_ms,
        sync_ms=now_ms - assigned_ms,
        still_ms=now_ms - rebalance.started_ms,
        members=members,
        leader=leader,
        protocol_name=protocol_name,
        waited_for=waited_for,
        removed_member_ids=tuple(rebalance.removed),
        moves=moves,
        is_initial=rebalance.is_initial,
        is_by_broker=is_by_broker,
    )
    remember(turn, group, report)
    turn.note(RebalanceCompleted(group_id=group.group_id, at_ms=now_ms, report=report))


def remember(turn: Turn, group: AnyGroup, report: RebalanceReport) -> None:
    """Keep the report. Where there is no room, drop older reports of its group, then its own details."""
    if len(group.history) == REBALANCES_KEPT:
        group.forget_oldest_rebalance()
    size_bytes = bytes_of(report)
    while group.history and not _fits(turn, size_bytes):
        group.forget_oldest_rebalance()
    if not _fits(turn, size_bytes):
        report = msgspec.structs.replace(
            report, moves=(), waited_for=(), further_causes=(), removed_member_ids=()
        )
        size_bytes = bytes_of(report)
    group.remember_rebalance(report, size_bytes)


def bytes_of(report: RebalanceReport) -> int:
    """Return about how many bytes are kept of a rebalance."""
    return (
        REPORT_BYTES
        + sum(MOVE_BYTES + len(topic) for topic in _topics(report.moves))
        + MOVE_BYTES * len(report.moves)
        + WAITED_BYTES * len(report.waited_for)
        + CAUSE_BYTES * len(report.further_causes)
        + ID_BYTES * len(report.removed_member_ids)
    )


def _topics(moves: tuple[Move, ...]) -> set[str]:
    return {each.topic for each in moves}


def _fits(turn: Turn, more_bytes: int) -> bool:
    taken_bytes = turn.groups.room.history_bytes_with(turn.groups.shard_bytes)
    return taken_bytes + more_bytes <= turn.config.history_bytes_max
