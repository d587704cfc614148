"""Whether a consumer keeps up, judged from its last commits: for the broker, and for reports on its logs.

The rules are those of LinkedIn's Burrow. They need no lag threshold: they check whether the lag shrinks. The
window is the last ten commits of a partition, each with its lag at that time.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

COMMITS_KEPT = 10
COMMITS_NEEDED = 3  # Fewer do not show whether the offset stalls or the lag grows.


class Verdict(Enum):
    """The state of a group's consumption in a partition, from good to bad."""

    OK = "OK"
    WARN = "WARN"
    """The group reads, but the lag never shrank in the window: it is too slow."""
    STALL = "STALL"
    """The group commits the same offset again and again, although it has lag."""
    STOP = "STOP"
    """The group has stopped committing, although it has lag."""
    REWIND = "REWIND"
    """The group went back to an earlier offset, and has not reached its highest offset again."""


_SEVERITY = {verdict: number for number, verdict in enumerate(Verdict)}


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst verdict, OK if there are none."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.OK)


class Commit(NamedTuple):
    """A commit: its time, its offset, and the lag when it was observed."""

    timestamp_ms: int
    offset: int
    lag: int


def judge(
    commits: Sequence[Commit], lag: int, *, caught_up_ms: int, now_ms: int, interval_ms: int
) -> Verdict:
    """Return the verdict on a group's last commits in a partition, the oldest first.

    `lag` is the current lag. `caught_up_ms` is when it was last known to be zero, or when observation began.
    `interval_ms` is the time between two observations.
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
    """Return whether the last commit and the last time without lag are older than the window's duration.

    A window with fewer than ten commits counts as ten intervals, because a few quick commits show too little.
    """
    span_ms = COMMITS_KEPT * interval_ms
    if len(commits) == COMMITS_KEPT:
        span_ms = max(commits[-1].timestamp_ms - commits[0].timestamp_ms, interval_ms)
    return now_ms - max(commits[-1].timestamp_ms, caught_up_ms) > span_ms


def _was_rewound(commits: Sequence[Commit]) -> bool:
    """Return whether an offset decreased in the window and the highest is not reached again."""
    offsets = [each.offset for each in commits]
    fell = any(later < earlier for earlier, later in pairwise(offsets))
    return fell and offsets[-1] < max(offsets)
