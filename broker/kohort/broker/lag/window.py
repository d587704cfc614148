"""The last commits of a group in a partition, kept small, and what they say. Pure: time comes with calls."""

from array import array

from kohort.broker.lag.first_record import FirstRecord
from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge, worst

FIELDS = 3

__all__ = ["COMMITS_KEPT", "Commit", "Verdict", "Window", "worst"]


class Window:
    """The last commits of a group in one partition, one for each look that found a new one.

    `caught_up_ms` is when the lag was last seen to be zero, at first the time of the first look, so that
    a group is not blamed for a time in which nobody looked. `position`, `first_offset`, `is_found` and
    `record_timestamp_ms` keep what the log has from a position on: the first record that a consumer gets.
    """

    __slots__ = ("_commits", "caught_up_ms", "first_offset", "is_found", "position", "record_timestamp_ms")

    def __init__(self, now_ms: int) -> None:
        self.caught_up_ms = now_ms
        self.position = self.first_offset = -1
        self.is_found = False
        self.record_timestamp_ms: int | None = None
        self._commits = array("q")  # Flat: there is one window for each partition of each group.

    def take(self, position: int, first: FirstRecord) -> None:
        """Keep what the log has from a position on."""
        self.position = position
        self.first_offset, self.is_found, self.record_timestamp_ms = first

    def first(self, position: int, log_start_offset: int) -> int:
        """Return an offset before which nothing is left to be read from a position on."""
        known = self.first_offset if self.position == position else position
        return max(known, log_start_offset)

    def knows(self, position: int, log_start_offset: int) -> bool:
        """Return whether the first record from a position on is known, and still there."""
        return self.is_found and self.position == position and self.first_offset >= log_start_offset

    def is_idle(self, timestamp_ms: int) -> bool:
        """Return whether the last look has seen the commit of this time already."""
        commits = self._commits
        return bool(commits) and commits[-FIELDS] == timestamp_ms

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
        return judge(
            self.commits, lag, caught_up_ms=self.caught_up_ms, now_ms=now_ms, interval_ms=interval_ms
        )
