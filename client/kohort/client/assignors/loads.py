"""How much each member has, and where that is uneven: kept up to date while partitions move."""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from kohort.client.assignors.subscription import Partition


class LeastLoaded:
    """The least loaded of some members, of equals the first; entries are checked when they surface."""

    def __init__(self, sizes: Sequence[int], ranks: Iterable[int]) -> None:
        self._sizes = sizes
        self._heap = [(sizes[rank], rank) for rank in ranks]
        heapq.heapify(self._heap)

    def top(self) -> int | None:
        """Return the rank of the least loaded member, None if there are no members."""
        heap = self._heap
        while heap:
            size, rank = heap[0]
            now = self._sizes[rank]
            if now == size:
                return rank
            if now > size:
                heapq.heapreplace(heap, (now, rank))
            else:
                heapq.heappop(heap)  # It has shrunk, so there is a newer entry.
        return None

    def shrunk(self, rank: int) -> None:
        """Take note that a member has less than before."""
        heapq.heappush(self._heap, (self._sizes[rank], rank))


class Loads:
    """Sizes of the members' shares; a topic is uneven if moving one of its partitions would help."""

    def __init__(
        self,
        sizes: list[int],
        owner: Mapping[Partition, int],
        wanting: Mapping[str, Sequence[int]],
        wishes: Sequence[Sequence[str]],
    ) -> None:
        self.sizes = sizes
        self.uneven: set[str] = set()
        self._wishes = wishes
        self._owned: dict[tuple[str, int], int] = {}
        for (topic, _), rank in owner.items():
            self._owned[topic, rank] = self._owned.get((topic, rank), 0) + 1
        self._least = {topic: LeastLoaded(sizes, ranks) for topic, ranks in wanting.items()}
        self._owners: dict[str, list[tuple[int, int]]] = {topic: [] for topic in wanting}
        for topic, rank in self._owned:
            self._owners[topic].append((-sizes[rank], rank))
        for topic, heap in self._owners.items():
            heapq.heapify(heap)
            self._weigh(topic)

    def least(self, topic: str) -> int:
        """Return the rank of the least loaded member that subscribes to the topic."""
        rank = self._least[topic].top()
        assert rank is not None, "a topic that nobody wants is not handed out"
        return rank

    def move(self, topic: str, giver: int, taker: int) -> None:
        """Let one partition of the topic change hands."""
        self._owned[topic, giver] -= 1
        self._owned[topic, taker] = self._owned.get((topic, taker), 0) + 1
        self.sizes[giver] -= 1
        self.sizes[taker] += 1
        for each in self._wishes[giver]:
            self._least[each].shrunk(giver)
        for each in self._wishes[taker]:
            if self._owned.get((each, taker)):
                heapq.heappush(self._owners[each], (-self.sizes[taker], taker))
        for each in {topic, *self._wishes[giver], *self._wishes[taker]}:
            self._weigh(each)

    def _weigh(self, topic: str) -> None:
        if self.sizes[self.least(topic)] + 1 < self._largest_owner(topic):
            self.uneven.add(topic)
        else:
            self.uneven.discard(topic)

    def _largest_owner(self, topic: str) -> int:
        heap = self._owners[topic]
        while heap:
            size, rank = -heap[0][0], heap[0][1]
            now = self.sizes[rank]
            if not self._owned.get((topic, rank)) or now > size:
                heapq.heappop(heap)  # It owns nothing here any more, or has a newer entry.
            elif now < size:
                heapq.heapreplace(heap, (-now, rank))
            else:
                return size
        return 0


def unevenness(sizes: Iterable[int]) -> int:
    """Return the sum of the differences between any two sizes: 0 if all are equal.

    Source: AbstractStickyAssignor.getBalanceScore.
    """
    ordered = sorted(sizes)
    return sum(size * (2 * rank - len(ordered) + 1) for rank, size in enumerate(ordered))
