"""Sticky where members want different topics: fill up, then move from full to empty while that helps.

Source: AbstractStickyAssignor.GeneralAssignmentBuilder, KIP-54, KIP-881.
"""

from collections.abc import Mapping, Sequence

from kohort.client.assignors.claims import Claims
from kohort.client.assignors.java_order import java_string_order
from kohort.client.assignors.loads import LeastLoaded, Loads, unevenness
from kohort.client.assignors.moves import Moves
from kohort.client.assignors.plan import Plan
from kohort.client.assignors.racks import RackMap
from kohort.client.assignors.subscription import Partition, Subscription


def balance_wishes(
    subscriptions: Mapping[str, Subscription], claims: Claims, counts: Mapping[str, int], racks: RackMap
) -> Plan:
    """Return shares as even as the members' wishes allow, with few moves."""
    balance = _Balance(subscriptions, counts, racks)
    new = balance.keep(claims)
    balance.fill(new)
    balance.even_out(claims.formerly, new)
    holdings: dict[str, list[Partition]] = {member_id: [] for member_id in subscriptions}
    for partition, rank in balance.owner.items():
        holdings[balance.members[rank]].append(partition)
    return Plan(holdings)


class _Balance:
    """Members go by their rank in the order of their names: of equally loaded ones the first counts."""

    def __init__(
        self, subscriptions: Mapping[str, Subscription], counts: Mapping[str, int], racks: RackMap
    ) -> None:
        self.members = sorted(subscriptions, key=java_string_order)
        self.owner: dict[Partition, int] = {}
        self._racks = racks
        self._sizes = [0] * len(self.members)
        self._wishes = [
            [topic for topic in dict.fromkeys(subscriptions[member_id].topics) if topic in counts]
            for member_id in self.members
        ]
        self._wanting: dict[str, list[int]] = {topic: [] for topic in counts}
        for rank, topics in enumerate(self._wishes):
            for topic in topics:
                self._wanting[topic].append(rank)
        by_demand = sorted(counts, key=lambda topic: (len(self._wanting[topic]), topic))
        self._partitions = [(topic, each) for topic in by_demand for each in range(counts[topic])]
        self._kept_any = False
        self._gave_up = False

    def keep(self, claims: Claims) -> list[Partition]:
        """Keep the members' former partitions that they still want and have a replica nearby.

        Return the rest.
        """
        ranks = self._ranks()
        for member_id, owned in claims.owned.items():
            wanted = frozenset(self._wishes[ranks[member_id]])
            for partition in owned:
                if partition[0] not in wanted or self._racks.is_far(member_id, partition):
                    self._gave_up = True
                else:
                    self._give(partition, ranks[member_id])
                    self._kept_any = True
        return [each for each in self._partitions if each not in self.owner]

    def fill(self, new: Sequence[Partition]) -> None:
        """Assign free partitions to the least loaded subscribers, those in the right racks first."""
        if self._racks:
            near: dict[tuple[str, frozenset[str]], LeastLoaded] = {}
            for partition in new:
                place = (partition[0], self._racks.partitions[partition])
                if place not in near:
                    near[place] = LeastLoaded(self._sizes, self._not_far(partition))
                self._give_to_top(partition, near[place])
        least: dict[str, LeastLoaded] = {}
        for partition in new:
            topic = partition[0]
            if partition not in self.owner:
                if topic not in least:
                    least[topic] = LeastLoaded(self._sizes, self._wanting[topic])
                self._give_to_top(partition, least[topic])

    def _not_far(self, partition: Partition) -> list[int]:
        wanting = self._wanting[partition[0]]
        return [rank for rank in wanting if not self._racks.is_far(self.members[rank], partition)]

    def _give_to_top(self, partition: Partition, least: LeastLoaded) -> None:
        rank = least.top()
        if rank is not None:
            self._give(partition, rank)

    def _give(self, partition: Partition, rank: int) -> None:
        self.owner[partition] = rank
        self._sizes[rank] += 1

    def even_out(self, formerly: Mapping[Partition, str], new: Sequence[Partition]) -> None:
        """Move partitions to less loaded members, undone where it has not helped in the end.

        If nobody has to revoke anything, first only new partitions are moved.
        """
        moving = self._moving()
        owner_before, uneven_before = dict(self.owner), self._unevenness(moving)
        ranks = self._ranks()
        former = {
            each: ranks[member_id]
            for each, member_id in formerly.items()
            if each[0] in self._wishes[ranks[member_id]]
        }
        rounds = _Rounds(self.owner, Loads(self._sizes, self.owner, self._wanting, self._wishes), former)
        if not self._gave_up:
            rounds.run(new)
        if rounds.run(self._partitions) and self._kept_any and self._unevenness(moving) >= uneven_before:
            self.owner = owner_before

    def _unevenness(self, ranks: Sequence[int]) -> int:
        return unevenness(self._sizes[rank] for rank in ranks)

    def _moving(self) -> list[int]:
        """Return the members that may lose or gain.

        Those without all they want, or with partitions that others want.
        """
        potential: dict[str, int] = {}
        for topic, _ in self._partitions:
            potential[topic] = potential.get(topic, 0) + 1
        return [
            rank
            for rank, topics in enumerate(self._wishes)
            if self._sizes[rank] < sum(potential[topic] for topic in topics)
            or any(len(self._wanting[topic]) > 1 for topic in topics)
        ]

    def _ranks(self) -> dict[str, int]:
        return {member_id: rank for rank, member_id in enumerate(self.members)}


class _Rounds:
    """Moves partitions round after round, until a round has moved none."""

    def __init__(self, owner: dict[Partition, int], loads: Loads, former: Mapping[Partition, int]) -> None:
        self._owner = owner
        self._loads = loads
        self._former = former
        self._moves = Moves()

    def run(self, partitions: Sequence[Partition]) -> bool:
        """Move these partitions while that makes loads more even; return whether any was moved."""
        moved_any = False
        while self._round(partitions):
            moved_any = True
        return moved_any

    def _round(self, partitions: Sequence[Partition]) -> bool:
        moved = False
        for partition in partitions:
            if not self._loads.uneven:
                break
            taker = self._taker(partition)
            if taker is not None:
                self._move(partition, taker)
                moved = True
        return moved

    def _taker(self, partition: Partition) -> int | None:
        """Return a better owner: the former one, or the least loaded subscriber."""
        sizes = self._loads.sizes
        size = sizes[self._owner[partition]]
        former = self._former.get(partition)
        if former is not None and size > sizes[former] + 1:
            return former
        least = self._loads.least(partition[0])
        return least if size > sizes[least] + 1 else None

    def _move(self, partition: Partition, taker: int) -> None:
        moving = self._moves.instead_of(partition, self._owner[partition], taker)
        giver = self._owner[moving]
        self._moves.note(moving, giver, taker)
        self._owner[moving] = taker
        self._loads.move(moving[0], giver, taker)
