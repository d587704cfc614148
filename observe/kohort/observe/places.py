"""Committed offsets and the members behind them, as they are followed. Pure."""

import msgspec

from kohort.broker.explain.observed.events import Departure, ObservedMember, OwnedPartition

OWNED_KEPT = 64
WEIGHT = 4
"""The newest interval counts for a quarter of the usual one."""


class Activity(msgspec.Struct):
    """A member, when it committed last, and when that last moved an offset. Intervals are usual ones."""

    member: ObservedMember
    last_commit_ms: int = 0
    commit_interval_ms: int = 0
    last_progress_ms: int = 0
    progress_interval_ms: int = 0

    def committed(self, at_ms: int) -> None:
        """Note a commit. Those of one request, which have one time, are one."""
        if at_ms > self.last_commit_ms:
            self.commit_interval_ms = _usual(self.commit_interval_ms, self.last_commit_ms, at_ms)
            self.last_commit_ms = at_ms

    def progressed(self, at_ms: int) -> None:
        """Note that an offset moved forward."""
        if at_ms > self.last_progress_ms:
            self.progress_interval_ms = _usual(self.progress_interval_ms, self.last_progress_ms, at_ms)
            self.last_progress_ms = at_ms

    def departure(self, owned: tuple[OwnedPartition, ...]) -> Departure:
        """Return what is known of the member now that it is gone."""
        return Departure(
            self.member,
            self.last_commit_ms,
            self.commit_interval_ms,
            self.last_progress_ms,
            self.progress_interval_ms,
            owned,
        )


def _usual(interval_ms: int, former_ms: int, at_ms: int) -> int:
    if not former_ms:
        return 0
    newest_ms = at_ms - former_ms
    return newest_ms if not interval_ms else interval_ms + (newest_ms - interval_ms) // WEIGHT


class Place:
    """A partition of a group: the committed offset, when it was committed, and when it last moved forward."""

    __slots__ = ("activity", "at_ms", "offset", "partition", "progress_ms", "topic")

    def __init__(self, topic: str, partition: int, offset: int, at_ms: int, progress_ms: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.at_ms = at_ms
        self.progress_ms = progress_ms
        self.activity: Activity | None = None
