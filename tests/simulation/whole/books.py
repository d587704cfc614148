"""What producers were told, and what the topics hold in the end."""

from collections import Counter


class Violation(AssertionError):
    """Something that a broker has promised does not hold."""


class Books:
    """Values of one run. Each is written once, by a producer that gives a number of its own to each value."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        """Values whose write was acknowledged, outside of transactions."""
        self.sent: set[str] = set()
        """Values that were sent, whatever came of it."""
        self.committed: list[frozenset[str]] = []
        """The values of each transaction whose commit was acknowledged."""
        self.aborted: list[frozenset[str]] = []
        """The values of each transaction whose abort was acknowledged."""
        self.transactions: list[frozenset[str]] = []
        """The values of each transaction, whatever came of it."""
        self.shown: Counter[str] = Counter()
        """How often group members were shown each value."""
        self.checked: Counter[str] = Counter()

    def check_end(self, found: list[tuple[int, int, str]]) -> None:
        """Check what a reader of committed records finds in the end: partition, offset and value, in order.

        Raises: Violation.
        """
        counts = Counter(value for _, _, value in found)
        there = set(counts)
        self._hold("what was acknowledged survives", not self.acknowledged - there, self.acknowledged - there)
        self._hold("nothing is there twice", max(counts.values(), default=0) <= 1, counts.most_common(3))
        self._hold("only what was sent is there", not there - self.sent, there - self.sent)
        for values in self.committed:
            self._hold("a committed transaction is there as a whole", values <= there, values - there)
        for values in self.aborted:
            self._hold("nothing of an aborted transaction is shown", not values & there, values & there)
        for values in self.transactions:
            is_whole = values <= there or not values & there
            self._hold("a transaction is there as a whole or not at all", is_whole, values & there)

    def check_shown(self) -> None:
        """Check that a group has been shown all that counts, and nothing that does not. Raises: Violation."""
        counting = self.acknowledged.union(*self.committed)
        self._hold("a group is shown what counts", counting <= set(self.shown), counting - set(self.shown))
        for values in self.aborted:
            self._hold("no aborted value was shown", not values & set(self.shown), values & set(self.shown))

    def _hold(self, rule: str, holds: bool, found: object) -> None:
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {str(found)[:500]}")
