"""How far groups are behind, in offsets and in seconds, and whether they keep up. Pure.

The end of each partition's log is known at each look. A committed offset was the end of the log at some time:
the lag in seconds is what has passed since the look at which the log first ended behind that offset.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from kohort.observe.places import Place
from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge

ENDS_KEPT = 90
"""Looks of a partition's end that are kept: 15 minutes, at a look every 10 seconds."""


class PlaceLag(NamedTuple):
    """One partition of a group; the lag is None where the log's end is not known."""

    topic: str
    partition: int
    offset: int
    commit_timestamp_ms: int
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    verdict: Verdict | None


class _Followed:
    """The last commits of a group in a partition, and when the group was last at the log's end."""

    __slots__ = ("caught_up_ms", "commits")

    def __init__(self, now_ms: int) -> None:
        self.commits: deque[Commit] = deque(maxlen=COMMITS_KEPT)
        self.caught_up_ms = now_ms


class Lags:
    """Remembers the ends of logs, and the last commits of each group in each partition."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        self._groups: dict[str, dict[tuple[str, int], _Followed]] = {}
        self._interval_ms = 0
        self._looked_ms = 0

    def look(self, ends: Mapping[str, Mapping[int, int]], now_ms: int) -> None:
        """Take the ends of the logs as of now. Those that have not been seen for long are forgotten."""
        if self._looked_ms:
            self._interval_ms = now_ms - self._looked_ms
        self._looked_ms = now_ms
        for topic, partitions in ends.items():
            for partition, end in partitions.items():
                kept = self._ends.setdefault((topic, partition), deque(maxlen=ENDS_KEPT))
                kept.append((now_ms, end))
        old_ms = now_ms - ENDS_KEPT * max(self._interval_ms, 1)
        for place in [each for each, kept in self._ends.items() if kept[-1][0] < old_ms]:
            del self._ends[place]

    def look_at(self, group_id: str, places: Mapping[tuple[str, int], Place]) -> None:
        """Take the newest commits of a group, each with its lag."""
        group = self._groups.setdefault(group_id, {})
        for where in group.keys() - places.keys():
            del group[where]
        for where, place in places.items():
            kept_ends = self._ends.get(where)
            if not kept_ends:
                continue
            lag = max(kept_ends[-1][1] - place.offset, 0)
            followed = group.get(where)
            if followed is None:
                followed = group[where] = _Followed(self._looked_ms)
            if not lag:
                followed.caught_up_ms = self._looked_ms
            if not followed.commits or followed.commits[-1].timestamp_ms != place.at_ms:
                followed.commits.append(Commit(place.at_ms, place.offset, lag))

    def lag_of(self, group_id: str, place: Place, now_ms: int) -> PlaceLag:
        """Return how far a group is behind in one partition."""
        kept = self._ends.get((place.topic, place.partition))
        where = place.topic, place.partition, place.offset, place.at_ms
        if not kept:
            return PlaceLag(*where, None, None, None, None)
        end = kept[-1][1]
        lag = max(end - place.offset, 0)
        followed = self._groups.get(group_id, {}).get((place.topic, place.partition)) or _Followed(now_ms)
        verdict = judge(
            list(followed.commits),
            lag,
            caught_up_ms=followed.caught_up_ms,
            now_ms=now_ms,
            interval_ms=self._interval_ms,
        )
        return PlaceLag(*where, end, lag, _seconds(kept, place.offset, now_ms) if lag else 0.0, verdict)

    def forget(self, group_id: str) -> None:
        """Forget a group that is gone."""
        self._groups.pop(group_id, None)


def _seconds(ends: deque[tuple[int, int]], offset: int, now_ms: int) -> float:
    """Return for how long the record at `offset` has been there: between two looks, by interpolation."""
    former: tuple[int, int] | None = None
    for at_ms, end in islice(ends, None):
        if end > offset:
            written_ms = float(at_ms)
            if former is not None and end > former[1]:
                share = (offset - former[1]) / (end - former[1])
                written_ms = former[0] + max(share, 0.0) * (at_ms - former[0])
            return max(now_ms - written_ms, 0.0) / 1_000
        former = at_ms, end
    return 0.0
