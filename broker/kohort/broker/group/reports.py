"""Rebalances explained: what moved, who was waited for, how long partitions stood still."""

from collections.abc import Iterable, Mapping

from kohort.broker.group.events import Move, Outcome, RebalanceCompleted, RebalanceReport
from kohort.broker.group.group import CONSUMER, Group
from kohort.broker.group.history import remember
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.broker.group.turn import Turn

MOVES_KEPT = 1_000

Owners = dict[tuple[str, int], str]


def close_rebalance(
    turn: Turn, group: Group, outcome: Outcome, assignments: Mapping[str, bytes] | None = None
) -> None:
    """Put the rebalance in progress into the group's history, and tell of it.

    Called before `replay` has taken the outcome over: `group.metadata` still holds what was before.
    """
    rebalance = group.rebalance
    assert rebalance is not None
    report = _report(turn.now_ms, group, rebalance, outcome, assignments or {})
    remember(turn, group, report)
    turn.note(RebalanceCompleted(group_id=group.group_id, at_ms=turn.now_ms, report=report))


def owners(group: Group, assignments: Iterable[tuple[str, bytes]]) -> Owners:
    """Return who has which partition; of other than consumer groups nobody can say."""
    owned: Owners = {}
    if group.protocol_type != CONSUMER:
        return owned
    for member_id, assignment in assignments:
        for topic, partition in assigned_partitions(assignment):
            owned[topic, partition] = member_id
    return owned


def _report(
    now_ms: int, group: Group, rebalance: Rebalance, outcome: Outcome, assignments: Mapping[str, bytes]
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
    now_ms: int, group: Group, rebalance: Rebalance, assignments: Mapping[str, bytes]
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


def moves_of(rebalance: Rebalance, before: Owners, after: Owners, now_ms: int) -> tuple[Move, ...]:
    """Return what members gave up one by one and others got.

    Nobody had it from when its owner had given it up, at the longest.
    """
    stopped = stopped_ms(rebalance)
    moves = []
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if old != new:
            since_ms = stopped.get(old or "", rebalance.started_ms)
            until_ms = rebalance.joined_ms.get(new or "", now_ms) if old is None else now_ms
            moves.append(Move(*place, old, new, max(until_ms - since_ms, 0)))
    return tuple(moves[:MOVES_KEPT])


def stopped_ms(rebalance: Rebalance) -> dict[str, int]:
    """Return when each member stopped reading: when it rejoined or left, or was last heard of."""
    stopped = rebalance.gone_ms | rebalance.joined_ms
    for cause in (rebalance.cause, *rebalance.further_causes):
        if cause.after_ms:
            stopped[cause.member_id] = cause.at_ms - cause.after_ms
    return stopped
