"""The partitions that a rebalance moved, and how long they had no reader."""

from collections.abc import Iterable, Mapping

from kohort.broker.explain.events import Move
from kohort.broker.explain.rebalance import Rebalance
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.rebalance_facts import Owners
from kohort.broker.group.subscriptions import assigned_partitions

MOVES_KEPT = 1_000
NOBODY: Mapping[str, int] = {}


def owners(protocol_type: str | None, assignments: Iterable[tuple[str, bytes]]) -> Owners:
    """Return the owner of each partition; empty for a group whose protocol type is not consumer."""
    owned: Owners = {}
    if protocol_type != CONSUMER:
        return owned
    for member_id, assignment in assignments:
        for topic, partition in assigned_partitions(assignment):
            owned[topic, partition] = member_id
    return owned


def moves_of(
    rebalance: Rebalance, before: Owners, after: Owners, now_ms: int, given_ms: Mapping[str, int] = NOBODY
) -> tuple[Move, ...]:
    """Return the partitions that changed their owner. A static member that returned is no other owner.

    A partition without an owner had no reader until `now_ms`, or until its new member got it by `given_ms`.
    """
    stopped = stopped_ms(rebalance)
    moves = []
    for partition in sorted(before.keys() | after.keys()):
        old, new = before.get(partition), after.get(partition)
        if old != rebalance.original_member_ids.get(new or "", new):
            since_ms = stopped.get(old or "", rebalance.started_ms)
            until_ms = given_ms.get(new or "", now_ms) if old is None else now_ms
            moves.append(Move(*partition, old, new, max(until_ms - since_ms, 0)))
    return tuple(moves[:MOVES_KEPT])


def stopped_ms(rebalance: Rebalance) -> dict[str, int]:
    """Return when each member stopped reading: when it rejoined or left, or last sent a request."""
    stopped = rebalance.gone_ms | rebalance.joined_ms
    for cause in (rebalance.cause, *rebalance.further_causes):
        if cause.after_ms:
            stopped[cause.member_id] = cause.at_ms - cause.after_ms
    return stopped
