"""Whether a consumer keeps up, told from its last commits alone. Pure: time comes with each call.

The rules are those of LinkedIn's Burrow, which needs no threshold of how much lag is too much: they ask
whether the lag goes away. Its window is the last ten commits of a partition, each with the lag at the time.
"""

from array import array
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

COMMITS_KEPT = 10
COMMITS_NEEDED = 3  # Of fewer nobody can say whether offsets stand still or lag grows.
FIELDS = 3


class Verdict(Enum):
    """How a group does in a partition; later ones are worse."""

    OK = "OK"
    WARN = "WARN"
    """It reads, but the lag did not shrink once in the window: it is too slow."""
    STALL = "STALL"
    """It commits the same offset over and over, and there is more to read."""
    STOP = "STOP"
    """It commits no more, and there is more to read."""
    REWIND = "REWIND"
    """It went back to an earlier offset, and has not caught up with where it was."""


_SEVERITY = {verdict: number for number, verdict in enumerate(Verdict)}


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst of these, OK of none."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.OK)


class Commit(NamedTuple):
    """A commit as it was found: when it was made, and the lag when it was looked at."""

    timestamp_ms: int
    offset: int
    lag: int


class Window:
    """The last commits of a group in one partition, one for each look that found a new one.

    `caught_up_ms` is when the lag was last seen to be zero, at first the time of the first look, so that
    a group is not blamed for a time in which nobody looked. `record_offset` and `record_timestamp_ms`
    keep the time of the first unread record, which is on the disk.
    """

    __slots__ = ("_commits", "caught_up_ms", "record_offset", "record_timestamp_ms")

    def __init__(self, now_ms: int) -> None:
        self.caught_up_ms = now_ms
        self.record_offset = -1
        self.record_timestamp_ms: int | None = None
        self._commits = array("q")  # Flat: there is one window for each partition of each group.

    def look(self, timestamp_ms: int, offset: int, lag: int, now_ms: int) -> None:
        """Take over the newest commit as it stands now."""
        if not lag:
            self.caught_up_ms = now_ms
        commits = self._commits
        if commits and commits[-FIELDS] == timestamp_ms:
            return
        if len(commits) == COMMITS_KEPT * FIELDS:
            del commits[:FIELDS]
        commits.extend((timestamp_ms, offset, lag))

    @property
    def commits(self) -> list[Commit]:
        """The commits, the oldest first."""
        values = iter(self._commits)
        return [Commit(*each) for each in zip(values, values, values, strict=True)]

    @property
    def complete(self) -> float:
        """How much of the window is filled, from 0 to 1."""
        return len(self._commits) / (COMMITS_KEPT * FIELDS)

    def verdict(self, lag: int, now_ms: int, interval_ms: int) -> Verdict:
        """Return how the group does; `lag` is the present one, `interval_ms` lies between two looks."""
        commits = self.commits
        if not lag or not commits:
            return Verdict.OK
        if _has_stopped(commits, self.caught_up_ms, now_ms, interval_ms):
            return Verdict.STOP
        if _was_rewound(commits):
            return Verdict.REWIND
        if len(commits) < COMMITS_NEEDED or any(not each.lag for each in commits):
            return Verdict.OK
        if all(each.offset == commits[0].offset for each in commits):
            return Verdict.STALL
        lags = [each.lag for each in commits]
        if all(later >= earlier for earlier, later in pairwise(lags)):
            return Verdict.WARN
        return Verdict.OK


def _has_stopped(commits: list[Commit], caught_up_ms: int, now_ms: int, interval_ms: int) -> bool:
    """Return whether it is silent, and behind, for longer than the whole window lasted.

    A window that is not full yet counts as one of ten looks: two quick commits are no measure.
    """
    span_ms = COMMITS_KEPT * interval_ms
    if len(commits) == COMMITS_KEPT:
        span_ms = max(commits[-1].timestamp_ms - commits[0].timestamp_ms, interval_ms)
    return now_ms - max(commits[-1].timestamp_ms, caught_up_ms) > span_ms


def _was_rewound(commits: list[Commit]) -> bool:
    """Return whether an offset fell within the window and the highest has not been reached again."""
    offsets = [each.offset for each in commits]
    fell = any(later < earlier for earlier, later in pairwise(offsets))
    return fell and offsets[-1] < max(offsets)
