"""Range: each topic's partitions in runs, so that equal numbers of several topics stay together.

If members name their racks, they first get partitions with a replica there, as far
as the shares allow. Topics with the same number of partitions and the same subscribers are assigned
in the same way, so that equal partition numbers stay together.
Source: RangeAssignor, KIP-881.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from kohort.client.assignors.racks import MemberRacks, racks_matter
from kohort.client.assignors.subscription import (
    Assignment,
    Partition,
    Subscription,
    collect,
    member_order,
    racks_of,
    subscribed_topics,
)


def assign_range(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return runs of each topic's partitions, one longer for the first members where they don't divide."""
    alike = _alike(subscriptions, subscribed_topics(subscriptions, partition_counts))
    member_racks = {each: rack for each in subscriptions if (rack := subscriptions[each].rack_id)}
    racks = racks_of(partition_counts)
    near = {
        topic
        for (members, _), topics in alike.items()
        for topic in topics
        if racks_matter(
            {member_racks[each] for each in members if each in member_racks}, racks.get(topic, ())
        )
    }
    given: dict[str, list[Partition]] = {member_id: [] for member_id in subscriptions}
    for (members, count), topics in alike.items():
        share = _Share(members, count)
        if near and len(topics) > 1:
            common = _common_racks([racks.get(topic, ()) for topic in topics], count)
            share.deal_together(member_racks, common)
        elif topics[0] in near:
            share.take_near(member_racks, racks[topics[0]])
        share.take_runs()
        for member_id, partitions in share.taken.items():
            given[member_id] += [(topic, each) for topic in topics for each in partitions]
    return collect(given)


def _alike(
    subscriptions: Mapping[str, Subscription], counts: Mapping[str, int]
) -> dict[tuple[tuple[str, ...], int], list[str]]:
    """Return groups of topics with the same subscribers and number of partitions."""
    subscribers: dict[str, list[str]] = {topic: [] for topic in counts}
    for member_id in member_order(subscriptions):
        for topic in frozenset(subscriptions[member_id].topics) & counts.keys():
            subscribers[topic].append(member_id)
    found: dict[tuple[tuple[str, ...], int], list[str]] = defaultdict(list)
    for topic, members in subscribers.items():
        found[tuple(members), counts[topic]].append(topic)
    return found


def _common_racks(racks: Sequence[Sequence[frozenset[str]]], count: int) -> list[frozenset[str]]:
    """Return, by partition, the racks that hold a replica of it in every topic."""
    return [
        frozenset.intersection(*(each[partition] if partition < len(each) else frozenset() for each in racks))
        for partition in range(count)
    ]


class _Share:
    """The partitions of topics that are assigned in the same way, and their owners."""

    def __init__(self, members: Sequence[str], count: int) -> None:
        self.taken: dict[str, list[int]] = {member_id: [] for member_id in members}
        self._free = dict.fromkeys(range(count))
        self._least, self._longer_runs = divmod(count, len(members))

    def take_runs(self) -> None:
        """Give each member the rest of its share, from the front."""
        free = deque(self._free)
        for member_id in self.taken:
            self._take(member_id, [free.popleft() for _ in range(min(self._room(member_id), len(free)))])

    def take_near(self, member_racks: MemberRacks, racks: Sequence[frozenset[str]]) -> None:
        """Give each member, one after the other, partitions that have a replica in its rack."""
        by_rack: dict[str | None, deque[int]] = {None: deque(self._free)}
        for partition, each in enumerate(racks):
            for rack in each:
                by_rack.setdefault(rack, deque()).append(partition)
        for member_id in self.taken:
            near = by_rack.get(member_racks.get(member_id), deque())
            chosen: list[int] = []
            while near and len(chosen) < self._room(member_id):
                partition = near.popleft()
                if partition in self._free:
                    chosen.append(partition)
            self._take(member_id, chosen)

    def deal_together(self, member_racks: MemberRacks, racks: Sequence[frozenset[str]]) -> None:
        """Give each partition, one after the other, to the first member with room in one of its racks."""
        waiting: dict[str | None, deque[tuple[int, str]]] = {}
        for rank, member_id in enumerate(self.taken):
            waiting.setdefault(member_racks.get(member_id), deque()).append((rank, member_id))
        if waiting.keys() == {None}:
            return
        for partition, near in enumerate(racks):
            heads = [head for rack in (None, *near) if (head := self._first(waiting.get(rack)))]
            if heads:
                self._take(min(heads)[1], [partition])

    def _first(self, waiting: deque[tuple[int, str]] | None) -> tuple[int, str] | None:
        while waiting and not self._room(waiting[0][1]):
            waiting.popleft()  # A full share never gets space again.
        return waiting[0] if waiting else None

    def _room(self, member_id: str) -> int:
        return max(0, self._least + (self._longer_runs > 0) - len(self.taken[member_id]))

    def _take(self, member_id: str, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        self.taken[member_id] += partitions
        if len(self.taken[member_id]) > self._least:
            self._longer_runs -= 1
        for each in partitions:
            del self._free[each]
