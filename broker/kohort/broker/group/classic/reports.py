"""Rebalances of classic groups, explained: what moved, who was waited for, how long nobody read."""

from collections.abc import Mapping

from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.events import Move, Outcome, RebalanceCompleted, RebalanceReport
from kohort.broker.group.history import remember
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.reports import MOVES_KEPT, owners, stopped_ms
from kohort.broker.group.turn import Turn


def close_rebalance(
    turn: Turn, group: ClassicGroup, outcome: Outcome, assignments: Mapping[str, bytes] | None = None
) -> None:
    """Put the rebalance in progress into the group's history, and tell of it.

    Called before `replay` has taken the outcome over: `group.metadata` still holds what was before.
    """
    rebalance = group.rebalance
    assert rebalance is not None
    report = _report(turn.now_ms, group, rebalance, outcome, assignments or {})
    remember(turn, group, report)
    turn.note(RebalanceCompleted(group_id=group.group_id, at_ms=turn.now_ms, report=report))


def _report(
    now_ms: int, group: ClassicGroup, rebalance: Rebalance, outcome: Outcome, assignments: Mapping[str, bytes]
) -> RebalanceReport:
    join_completed_ms = now_ms if rebalance.join_completed_ms is None else rebalance.join_completed_ms
    return RebalanceReport(
        outcome=outcome,
        generation_id=group.generation_id + (outcome is Outcome.EMPTY),
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        join_ms=join_completed_ms - rebalance.started_ms,
        sync_ms=now_ms - join_completed_ms,
        still_ms=now_ms - rebalance.started_ms,
        members=len(group.members),
        leader=group.leader,
        protocol_name=group.protocol_name,
        waited_for=rebalance.waited_for,
        removed_member_ids=tuple(rebalance.removed),
        moves=() if outcome is Outcome.RESTARTED else _moves(now_ms, group, rebalance, assignments),
        is_initial=rebalance.is_initial,
    )


def _moves(
    now_ms: int, group: ClassicGroup, rebalance: Rebalance, assignments: Mapping[str, bytes]
) -> tuple[Move, ...]:
    logged = () if group.metadata is None else group.metadata.members
    before = owners(group, ((each.member_id, each.assignment) for each in logged))
    after = owners(group, assignments.items())
    stopped = stopped_ms(rebalance)
    moves = []
    for topic, partition in sorted(before.keys() | after.keys()):
        old, new = before.get((topic, partition)), after.get((topic, partition))
        if old != new:
            since_ms = stopped.get(old or "", rebalance.started_ms)
            moves.append(Move(topic, partition, old, new, now_ms - since_ms))
    return tuple(moves[:MOVES_KEPT])
