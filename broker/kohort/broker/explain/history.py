"""The past rebalances of each group, within the limit that all groups of a broker share.

A rebalance that moves a thousand partitions takes 130 KB: thirty-two of them in each of a hundred groups take
more memory than the broker itself. All rebalances are in `__group_events`.
"""

import msgspec

from kohort.broker.explain.events import Move, RebalanceReport
from kohort.broker.explain.rebalance import Rebalance

REBALANCES_KEPT = 32
HISTORY_BYTES_MAX = 32 * 1024 * 1024
REPORT_BYTES, MOVE_BYTES, WAITED_BYTES, CAUSE_BYTES, ID_BYTES = 600, 120, 150, 400, 100


class HistoryRoom:
    """How many bytes the past rebalances of all groups of a broker take, and may take."""

    __slots__ = ("bytes_max", "size_bytes")

    def __init__(self, bytes_max: int = HISTORY_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0

    def has_room(self, more_bytes: int) -> bool:
        """Return whether `more_bytes` may be kept."""
        return self.size_bytes + more_bytes <= self.bytes_max


class GroupRebalances:
    """The rebalances of a group: the one in progress, and past ones, the newest last."""

    __slots__ = ("_room", "_sizes_bytes", "history", "ongoing")

    def __init__(self, room: HistoryRoom) -> None:
        self.ongoing: Rebalance | None = None
        self.history: list[RebalanceReport] = []  # Few: a deque is no quicker, and ten times as large.
        self._sizes_bytes: list[int] = []  # What each of them takes.
        self._room = room

    def keep(self, report: RebalanceReport) -> None:
        """Keep the report. Where there is no room, drop older reports of the group, then its own details."""
        if len(self.history) == REBALANCES_KEPT:
            self._forget_oldest()
        size_bytes = bytes_of(report)
        while self.history and not self._room.has_room(size_bytes):
            self._forget_oldest()
        if not self._room.has_room(size_bytes):
            report = msgspec.structs.replace(
                report, moves=(), waited_for=(), further_causes=(), removed_member_ids=()
            )
            size_bytes = bytes_of(report)
        self.history.append(report)
        self._sizes_bytes.append(size_bytes)
        self._room.size_bytes += size_bytes

    def clear(self) -> None:
        """Forget all of it."""
        self.ongoing = None
        while self.history:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        del self.history[0]
        self._room.size_bytes -= self._sizes_bytes.pop(0)


NO_REBALANCES = GroupRebalances(HistoryRoom())
"""Of a group about which nothing is known."""


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
