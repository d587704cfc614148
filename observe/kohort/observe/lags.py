"""How far groups are behind, in offsets and in seconds, and whether they keep up. Pure.

The end of each partition's log is known at each look. A committed offset was the end of the log at some time:
the lag in seconds is what has passed since the look at which the log first ended behind that offset.
"""

from array import array
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kohort.observe.places import Place
from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge

ENDS_KEPT = 90
"""Looks of a partition's end that are kept: 15 minutes, at a look every 10 seconds."""
FRESH_LOOKS = 3
"""The lag is unknown if the end is older than this number of looks."""
NOT_SEEN = -1
INTERVAL_MS = 10_000


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

    def __init__(self, interval_ms: int = INTERVAL_MS) -> None:
        self._ends: dict[tuple[str, int], array[int]] = {}
        """Of each partition the end at the last looks, the newest last."""
        self._looks_ms: list[int] = []
        self._groups: dict[str, dict[tuple[str, int], _Followed]] = {}
        self._interval_ms = interval_ms

    @property
    def _looked_ms(self) -> int:
        return self._looks_ms[-1] if self._looks_ms else 0

    def look(self, ends: Mapping[str, Mapping[int, int]], now_ms: int) -> None:
        """Take the ends of the logs as of now. Those that have not been seen for long are forgotten."""
        if self._looks_ms:
            self._interval_ms = max(now_ms - self._looked_ms, 1)
        self._looks_ms.append(now_ms)
        for topic, partitions in ends.items():
            for partition in partitions:
                self._ends.setdefault((topic, partition), array("q"))
        nothing: Mapping[int, int] = {}
        gone = []
        for where, kept in self._ends.items():
            kept.append(ends.get(where[0], nothing).get(where[1], NOT_SEEN))
            if len(kept) > 2 * ENDS_KEPT:
                del kept[:ENDS_KEPT]
                if max(kept) == NOT_SEEN:
                    gone.append(where)
        for where in gone:
            del self._ends[where]
        if len(self._looks_ms) > 2 * ENDS_KEPT:
            del self._looks_ms[:ENDS_KEPT]

    def look_at(self, group_id: str, places: Mapping[tuple[str, int], Place]) -> None:
        """Take the newest commits of a group, each with its lag."""
        group = self._groups.setdefault(group_id, {})
        for where in group.keys() - places.keys():
            del group[where]
        for where, place in places.items():
            end = self._end(where, self._looked_ms)
            if end is None:
                continue
            lag = max(end - place.offset, 0)
            followed = group.get(where)
            if followed is None:
                followed = group[where] = _Followed(self._looked_ms)
            if not lag:
                followed.caught_up_ms = self._looked_ms
            if not followed.commits or followed.commits[-1].timestamp_ms != place.at_ms:
                followed.commits.append(Commit(place.at_ms, place.offset, lag))

    def lag_of(self, group_id: str, place: Place, now_ms: int) -> PlaceLag:
        """Return how far a group is behind in one partition."""
        key = place.topic, place.partition
        where = *key, place.offset, place.at_ms
        end = self._end(key, now_ms)
        if end is None:
            return PlaceLag(*where, None, None, None, None)
        lag = max(end - place.offset, 0)
        followed = self._groups.get(group_id, {}).get(key) or _Followed(now_ms)
        verdict = judge(
            list(followed.commits),
            lag,
            caught_up_ms=followed.caught_up_ms,
            now_ms=now_ms,
            interval_ms=self._interval_ms,
        )
        return PlaceLag(*where, end, lag, self._seconds(key, place.offset, now_ms) if lag else 0.0, verdict)

    def forget(self, group_id: str) -> None:
        """Forget a group that is gone."""
        self._groups.pop(group_id, None)

    def _end(self, where: tuple[str, int], now_ms: int) -> int | None:
        """Return the end of a log, None where it was not seen of late."""
        kept = self._ends.get(where)
        if kept is None or now_ms - self._looked_ms > FRESH_LOOKS * self._interval_ms:
            return None
        return next((each for each in reversed(kept[-FRESH_LOOKS:]) if each != NOT_SEEN), None)

    def _seconds(self, where: tuple[str, int], offset: int, now_ms: int) -> float:
        """Return for how long the record at `offset` has been there: between two looks, by interpolation."""
        later_ms, later_end = now_ms, NOT_SEEN
        for at_ms, end in zip(reversed(self._looks_ms), reversed(self._ends[where]), strict=False):
            if end == NOT_SEEN:
                continue
            if end <= offset:
                if later_end == NOT_SEEN:
                    return 0.0
                share = (offset - end) / (later_end - end)
                return max(now_ms - at_ms - share * (later_ms - at_ms), 0.0) / 1_000
            later_ms, later_end = at_ms, end
        return max(now_ms - later_ms, 0) / 1_000
