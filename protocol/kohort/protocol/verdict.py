"""Whether a consumer keeps up, told from its last commits alone: for the broker, and for reports on its logs.

The rules are those of LinkedIn's Burrow, which needs no threshold of how much lag is too much: they ask
whether the lag goes away. Its window is the last ten commits of a partition, each with the lag at the time.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

COMMITS_KEPT = 10
COMMITS_NEEDED = 3  # Of fewer nobody can say whether offsets stand still or lag grows.


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


def judge(
    commits: Sequence[Commit], lag: int, *, caught_up_ms: int, now_ms: int, interval_ms: int
) -> Verdict:
    """Return how a group does, by its last commits in a partition, the oldest first.

    `lag` is the present one, `caught_up_ms` when it was last known to be zero, or when looking began;
    `interval_ms` lies between two looks.
    """
    if not lag or not commits:
        return Verdict.OK
    if _has_stopped(commits, caught_up_ms, now_ms, interval_ms):
        return Verdict.STOP
    if _was_rewound(commits):
        return Verdict.REWIND
    if len(commits) < COMMITS_NEEDED or any(not each.lag for each in commits):
        return Verdict.OK
    if all(each.offset == commits[0].offset for each in commits):
        return Verdict.STALL
    if all(later.lag >= earlier.lag for earlier, later in pairwise(commits)):
        return Verdict.WARN
    return Verdict.OK


def _has_stopped(commits: Sequence[Commit], caught_up_ms: int, now_ms: int, interval_ms: int) -> bool:
    """Return whether it is silent, and behind, for longer than the whole window lasted.

    A window that is not full yet counts as one of ten looks: two quick commits are no measure.
    """
    span_ms = COMMITS_KEPT * interval_ms
    if len(commits) == COMMITS_KEPT:
        span_ms = max(commits[-1].timestamp_ms - commits[0].timestamp_ms, interval_ms)
    return now_ms - max(commits[-1].timestamp_ms, caught_up_ms) > span_ms


def _was_rewound(commits: Sequence[Commit]) -> bool:
    """Return whether an offset fell within the window and the highest has not been reached again."""
    offsets = [each.offset for each in commits]
    fell = any(later < earlier for earlier, later in pairwise(offsets))
    return fell and offsets[-1] < max(offsets)
