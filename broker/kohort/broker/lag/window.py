"""The last commits of a group in a partition, kept small, and what they say. Pure: time comes with calls."""

from array import array

from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge, worst

FIELDS = 3

__all__ = ["COMMITS_KEPT", "Commit", "Verdict", "Window", "worst"]


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
        return judge(
            self.commits, lag, caught_up_ms=self.caught_up_ms, now_ms=now_ms, interval_ms=interval_ms
        )
