"""Sticky where all members want the same topics: equal shares, filled up one by one.

Source: AbstractStickyAssignor.ConstrainedAssignmentBuilder, KIP-54, KIP-881.
"""

from collections.abc import Iterable, Mapping

from kohort.client.assignors.claims import Claims
from kohort.client.assignors.java_order import java_string_order
from kohort.client.assignors.plan import Plan
from kohort.client.assignors.racks import RackMap
from kohort.client.assignors.subscription import Partition


def share_equally(claims: Claims, counts: Mapping[str, int], racks: RackMap) -> Plan:
    """Return shares of equal size, or larger by one for some: kept first, then filled up."""
    shares = _Shares(claims, sum(counts.values()), racks)
    for member_id, owned in claims.owned.items():
        shares.keep(member_id, owned)
    kept = frozenset(each for mine in shares.holdings.values() for each in mine)
    everything = ((topic, each) for topic, count in counts.items() for each in range(count))
    free = racks.rarest_first([each for each in everything if each not in kept])
    shares.sort_unfilled()
    shares.deal(shares.deal_near(free) if racks else free)
    return Plan(shares.holdings, frozenset(shares.leaving))


class _Shares:
    """The growing shares: the members below the smaller size, and those who may still have the larger one."""

    def __init__(self, claims: Claims, total: int, racks: RackMap) -> None:
        self.holdings: dict[str, list[Partition]] = {member_id: [] for member_id in claims.owned}
        self.leaving: set[Partition] = set()
        self._disputed = claims.disputed
        self._racks = racks
        self._released: dict[Partition, str] = {}
        self._least, self._larger_left = divmod(total, len(claims.owned))
        self._most = self._least + (self._larger_left > 0)
        self._below = _Hungry(racks)
        self._at_least = _Hungry(racks)

    def keep(self, member_id: str, owned: Iterable[Partition]) -> None:
        """Keep a member's former partitions, up to its share; those in other racks are released."""
        mine: list[Partition] = []
        for partition in sorted(owned, key=lambda each: (each[1], each[0])):
            if self._racks.is_far(member_id, partition):
                self._released[partition] = member_id
            elif partition not in self._disputed:
                mine.append(partition)
        quota = self._quota(member_id, len(mine))
        self.holdings[member_id] += mine[:quota]
        self._released.update(dict.fromkeys(mine[quota:], member_id))

    def _quota(self, member_id: str, owned: int) -> int:
        """Return how many of its former partitions a member keeps; note if it may have more."""
        if owned < self._least:
            self._below.add(member_id)
            return owned
        if owned >= self._most and self._larger_left:
            self._count_larger()
            return self._most
        if self._larger_left:
            self._at_least.add(member_id)
        return self._least

    def _count_larger(self) -> None:
        """Count one more larger share.

        When all allowed ones are used, members with the smaller share are complete.
        """
        self._larger_left -= 1
        if not self._larger_left:
            self._at_least.clear()

    def sort_unfilled(self) -> None:
        """Sort the members that may get more partitions by their ids."""
        self._below.sort()
        self._at_least.sort()

    def deal_near(self, free: list[Partition]) -> list[Partition]:
        """Assign partitions to members in their racks, in turn, and return those without such a member."""
        far: list[Partition] = []
        turn = 0
        for partition in free:
            place = self._below.find_near(partition, turn)
            if place is not None:
                turn = self._feed(partition, place)
            elif (place := self._at_least.find_near(partition, 0)) is not None:
                self._give(partition, self._at_least.pop(place))
                self._count_larger()
            else:
                far.append(partition)
        return far

    def _feed(self, partition: Partition, place: int) -> int:
        """Give to one below the smaller share, and return whose turn it is next."""
        member_id = self._below.members[place]
        if self._give(partition, member_id) < self._least:
            return (place + 1) % len(self._below.members)
        self._below.pop(place)
        if self._larger_left:
            self._at_least.add(member_id)
        return place % len(self._below.members) if self._below.members else 0

    def deal(self, free: list[Partition]) -> None:
        """Give the partitions out in turn: up to the smaller share first, then to the larger."""
        place = 0
        for partition in free:
            below = self._below.members
            if not below:
                self._give(partition, self._at_least.pop(0))
                continue
            place %= len(below)
            if self._give(partition, below[place]) == self._least:
                self._at_least.add(self._below.pop(place))
            else:
                place += 1

    def _give(self, partition: Partition, member_id: str) -> int:
        """Return how many the member has, with this one."""
        mine = self.holdings[member_id]
        mine.append(partition)
        if partition in self._disputed or self._released.get(partition, member_id) != member_id:
            self.leaving.add(partition)
        return len(mine)


class _Hungry:
    """Members who may have more, and their number in each rack."""

    def __init__(self, racks: RackMap) -> None:
        self.members: list[str] = []
        self._racks = racks
        self._crowd: dict[str | None, int] = {}

    def add(self, member_id: str) -> None:
        """Let one more queue."""
        self.members.append(member_id)
        rack = self._racks.members.get(member_id)
        self._crowd[rack] = self._crowd.get(rack, 0) + 1

    def pop(self, place: int) -> str:
        """Return the member at a position, and remove it from the queue."""
        member_id = self.members.pop(place)
        self._crowd[self._racks.members.get(member_id)] -= 1
        return member_id

    def clear(self) -> None:
        """Remove all candidates."""
        self.members.clear()
        self._crowd.clear()

    def sort(self) -> None:
        """Order the members by their names."""
        self.members.sort(key=java_string_order)

    def find_near(self, partition: Partition, first: int) -> int | None:
        """Return the place of the next member in one of the partition's racks, or None."""
        racks = self._racks.partitions[partition]
        if not any(self._crowd.get(rack) for rack in racks):
            return None
        count = len(self.members)
        for step in range(count):
            place = (first + step) % count
            if self._racks.members.get(self.members[place]) in racks:
                return place
        return None
