"""Lag, throughput and time to drain, of numbers alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge


class Sample(NamedTuple):
    """Where a group and a partition's end were at one time."""

    at_ms: int
    committed_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Records that were there and not committed."""
        return max(self.end_offset - self.committed_offset, 0)


class Pace(NamedTuple):
    """Records per second: the commit rate of a group, and the write rate of producers."""

    consumed: float
    produced: float


def pace(samples: Sequence[Sample]) -> Pace | None:
    """Return the pace over these samples, the oldest first; None where they span no time."""
    if len(samples) < 2 or samples[-1].at_ms <= samples[0].at_ms:
        return None
    first, last = samples[0], samples[-1]
    seconds = (last.at_ms - first.at_ms) / 1000
    consumed = (last.committed_offset - first.committed_offset) / seconds
    return Pace(consumed, (last.end_offset - first.end_offset) / seconds)


def drain_seconds(lag: int, at: Pace | None) -> float | None:
    """Return how long the lag takes to go away at this pace: 0 without lag, None where it never does."""
    if lag <= 0:
        return 0.0
    if at is None or at.consumed <= at.produced:
        return None
    return lag / (at.consumed - at.produced)


def time_to_drain(seconds: float | None, verdict: Verdict, *, has_pace: bool) -> str:
    """Return the result of `drain_seconds` in words, or why there is none."""
    if seconds is not None:
        return duration(seconds) if seconds else "none"
    if not has_pace:
        return "not known yet"
    return "it stays as it is" if verdict is Verdict.OK else "never at this pace"


def duration(seconds: float) -> str:
    """Return a duration in the words of daily use."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.1f} h"


def verdict(samples: Sequence[Sample], lag: int, now_ms: int) -> Verdict:
    """Return Burrow's verdict on a group's last commits, each a sample of the time at which it was made.

    A broker looks once per interval; in a log the interval is the time between two commits.
    """
    if not samples:
        return Verdict.OK
    last = samples[-COMMITS_KEPT:]
    window = [Commit(each.at_ms, each.committed_offset, each.lag) for each in last]
    caught_up = [each.at_ms for each in last if not each.lag]
    interval_ms = max((last[-1].at_ms - last[0].at_ms) // max(len(last) - 1, 1), 1_000)
    return judge(
        window,
        lag,
        caught_up_ms=max(caught_up, default=last[0].at_ms),
        now_ms=now_ms,
        interval_ms=interval_ms,
    )
