"""What producers were told, and what the topics hold in the end."""

from collections import Counter

from tests.simulation.whole.cluster_books import ClusterBooks
from tests.simulation.whole.keeping import KeepBooks
from tests.simulation.whole.replication_books import ReplicationBooks
from tests.simulation.whole.rules import Rules
from tests.simulation.whole.sharing import ShareBooks
from tests.simulation.whole.trimming import TrimBooks

PROTOCOLS = ("classic", "consumer")
"""The protocols of consumer groups. One group of each reads."""


class Books(Rules):
    """Values of one run. Each is written once, by a producer that gives a number of its own to each value."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: set[str] = set()
        """Values whose write was acknowledged, outside of transactions."""
        self.written: set[int] = set()
        """The partitions with something acknowledged."""
        self.sent: set[str] = set()
        """Values that were sent, whatever came of it."""
        self.committed: list[frozenset[str]] = []
        """The values of each transaction whose commit was acknowledged."""
        self.aborted: list[frozenset[str]] = []
        """The values of each transaction whose abort was acknowledged."""
        self.transactions: list[frozenset[str]] = []
        """The values of each transaction, whatever came of it."""
        self.shown: dict[str, Counter[str]] = {protocol: Counter() for protocol in PROTOCOLS}
        """How often the members of the group of each protocol were shown each value."""
        self.sharing = ShareBooks()
        self.trimming = TrimBooks()
        self.keeping = KeepBooks()
        self.cluster = ClusterBooks()
        self.replication = ReplicationBooks()

    @property
    def counting(self) -> set[str]:
        """The values that each group has to be shown."""
        return self.acknowledged.union(*self.committed)

    def check_end(self, found: list[tuple[int, int, str]]) -> None:
        """Check what a reader of committed records finds in the end: partition, offset and value, in order.

        Raises: Violation.
        """
        counts = Counter(value for _, _, value in found)
        there = set(counts)
        self.hold("what was acknowledged survives", not self.acknowledged - there, self.acknowledged - there)
        self.hold("nothing is there twice", max(counts.values(), default=0) <= 1, counts.most_common(3))
        self.hold("only what was sent is there", not there - self.sent, there - self.sent)
        for values in self.committed:
            self.hold("a committed transaction is there as a whole", values <= there, values - there)
        for values in self.aborted:
            self.hold("nothing of an aborted transaction is shown", not values & there, values & there)
        for values in self.transactions:
            is_whole = values <= there or not values & there
            self.hold("a transaction is there as a whole or not at all", is_whole, values & there)

    def check_shown(self) -> None:
        """Check that a group has been shown all that counts, and nothing that does not. Raises: Violation."""
        counting = self.counting
        for shown in map(set, self.shown.values()):
            self.hold("a group is shown what counts", counting <= shown, counting - shown)
            for values in self.aborted:
                self.hold("no aborted value was shown", not values & shown, values & shown)

    def all_checked(self) -> Counter[str]:
        """Return how often each rule was checked, those of the parts too."""
        parts = (self.sharing, self.trimming, self.keeping, self.cluster, self.replication)
        return sum((each.checked for each in parts), self.checked)
