"""What clients of a cluster are shown while its metadata change, and what may not be there."""

from kohort.protocol.errors import ErrorCode
from tests.simulation.whole.rules import Rules


class ClusterBooks(Rules):
    """The rules of a topic that is deleted and made again, and of answers by time."""

    def found_by_time(self, partition: int, offset: int, was_written: bool) -> None:
        """See what the first offset since the beginning of time is. Raises: Violation."""
        holds = offset >= 0 or not was_written
        self.hold("a time finds what was acknowledged before", holds, (partition, offset))

    def made_again(self, committed: object, values: set[str], old: set[str]) -> None:
        """See a topic that was deleted and made again, before anybody has committed. Raises: Violation."""
        self.hold("no committed offset outlives its topic", committed is None, committed)
        self.hold("nothing of a deleted topic comes back", not values & old, values & old)

    def read_again(self, acknowledged: set[str], found: set[str]) -> None:
        """See what is read of it. Raises: Violation."""
        lost = acknowledged - found
        self.hold("a topic that was made again has what was acknowledged", not lost, lost)

    def came_late(self, code: ErrorCode) -> None:
        """See what a batch is told that comes behind the end of its transaction. Raises: Violation."""
        rule = "a batch behind its transaction's end is refused"
        self.hold(rule, code is not ErrorCode.NONE, code)

    def is_stable(self, stable: int, end: int) -> None:
        """See the ends of a partition without open transactions, for both kinds of readers."""
        self.hold("no transaction stays open behind its end", stable == end, (stable, end))
