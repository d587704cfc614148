"""The last commits of a group in a partition, and their verdict. Pure: callers give the time."""

from array import array

from kohort.broker.lag.first_record import FirstRecord
from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge, worst

FIELDS = 3

__all__ = ["COMMITS_KEPT", "Commit", "Verdict", "Window", "worst"]


class Window:
    """The last commits of a group in one partition, one for each observation with a new commit.

    `caught_up_ms` is when the lag was last zero. It begins with the time of the first observation, because
    earlier lag is unknown. `position`, `first_offset`, `is_found` and `record_timestamp_ms` describe the
    first record for a consumer from a position on.
    """

    __slots__ = ("_commits", "caught_up_ms", "first_offset", "is_found", "position", "record_timestamp_ms")

    def __init__(self, now_ms: int) -> None:
        self.caught_up_ms = now_ms
        self.position = self.first_offset = -1
        self.is_found = False
        self.record_timestamp_ms: int | None = None
        self._commits = array("q")  # An array, because there are many windows.

    def take(self, position: int, first: FirstRecord) -> None:
        """Store the first record from a position on."""
        self.position = position
        self.first_offset, self.is_found, self.record_timestamp_ms = first

    def first(self, position: int, log_start_offset: int) -> int:
        """Return the offset of the first unread record from a position on, or a lower bound of it."""
        known = self.first_offset if self.position == position else position
        return max(known, log_start_offset)

    def knows(self, position: int, log_start_offset: int) -> bool:
        """Return whether the first record from a position on is known and not deleted."""
        return self.is_found and self.position == position and self.first_offset >= log_start_offset

    def is_idle(self, timestamp_ms: int) -> bool:
        """Return whether the last observation had the commit with this timestamp already."""
        commits = self._commits
        return bool(commits) and commits[-FIELDS] == timestamp_ms

    def look(self, timestamp_ms: int, offset: int, lag: int, now_ms: int) -> None:
        """Add the newest commit with its current lag."""
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
        """The filled part of the window, from 0 to 1."""
        return len(self._commits) / (COMMITS_KEPT * FIELDS)

    def verdict(self, lag: int, now_ms: int, interval_ms: int) -> Verdict:
        """Return the verdict. `lag` is the current lag, `interval_ms` the time between two observations."""
        return judge(
            self.commits, lag, caught_up_ms=self.caught_up_ms, now_ms=now_ms, interval_ms=interval_ms
        )
