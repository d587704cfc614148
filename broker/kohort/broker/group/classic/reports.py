"""The report of a classic group's rebalance."""

from collections.abc import Mapping

from kohort.broker.group import history
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.events import Move, Outcome
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.reports import moves_of, owners
from kohort.broker.group.turn import Turn


def close_rebalance(
    turn: Turn, group: ClassicGroup, outcome: Outcome, assignments: Mapping[str, bytes] | None = None
) -> None:
    """Add the rebalance in progress to the group's history, and report it in an event.

    Called before `replay` takes the outcome over: `group.metadata` still has the former assignment.
    """
    rebalance = group.rebalance
    assert rebalance is not None
    is_restarted = outcome is Outcome.RESTARTED
    history.close_rebalance(
        turn,
        group,
        outcome,
        generation_id=group.generation_id + (outcome is Outcome.EMPTY),
        members=len(group.members),
        leader=group.leader,
        protocol_name=group.protocol_name,
        waited_for=rebalance.waited_for,
        moves=() if is_restarted else _moves(turn.now_ms, group, rebalance, assignments or {}),
    )


def _moves(
    now_ms: int, group: ClassicGroup, rebalance: Rebalance, assignments: Mapping[str, bytes]
) -> tuple[Move, ...]:
    logged = () if group.metadata is None else group.metadata.members
    before = owners(group, ((each.member_id, each.assignment) for each in logged))
    return moves_of(rebalance, before, owners(group, assignments.items()), now_ms)
