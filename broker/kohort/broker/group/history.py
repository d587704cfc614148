"""The rebalances that a group remembers, in the room that the history of all groups has.

A rebalance that moves a thousand partitions takes 130 KB; thirty-two of them in each of a hundred groups are
more than the broker itself takes. Who needs them all reads `__group_events`.
"""

import msgspec

from kohort.broker.group.events import Move, RebalanceReport
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import Turn

REBALANCES_KEPT = 32
REPORT_BYTES, MOVE_BYTES, WAITED_BYTES, CAUSE_BYTES, ID_BYTES = 600, 120, 150, 400, 100


def remember(turn: Turn, group: AnyGroup, report: RebalanceReport) -> None:
    """Keep the rebalance: where there is no room, instead of older ones of its group, or in outline."""
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
