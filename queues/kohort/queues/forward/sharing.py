"""Hands partitions out by what they weigh: a cooperative assignor that moves few of them at a time. Pure.

Members tell what each of their partitions has brought: bytes a second, and pushes under way on average, which
is records a second times latency. The leader weighs each by its share of both. Partitions without an owner go
to the member with the least; then a few are taken from members that have more than their share. Who gives one
up joins again, and the next round goes on from there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kohort.client.assignors import Assignment, Assignor, Owned, Subscription
from kohort.client.assignors.claims import settle_claims
from kohort.client.assignors.subscription import Partition, collect, member_order, subscribed_topics

NAME = "kohort-by-load"
MOVES_MIN, MOVES_PART = 2, 20  # Two partitions a rebalance, or a twentieth of all.
EVENNESS = 1.2  # What the fullest member has may be so many times a fair share.
LESS = 0.95  # Who takes a partition has less afterwards than this part of what its giver had.
COUNT_SHARE = 0.2  # So much of a partition's weight is that it is one: idle ones are spread, too.
VERSION = 1


class Load(NamedTuple):
    """What a partition brings."""

    bytes_per_s: float
    pushes: float
    """Under way at once, on average."""


Loads = Mapping[Partition, Load]


class _Told(msgspec.Struct, array_like=True, frozen=True):
    version: int
    loads: dict[str, dict[int, tuple[float, float]]]


def encode_loads(loads: Loads) -> bytes:
    """Return what a member tells the leader."""
    by_topic: dict[str, dict[int, tuple[float, float]]] = {}
    for (topic, partition), load in loads.items():
        by_topic.setdefault(topic, {})[partition] = (round(load.bytes_per_s, 1), round(load.pushes, 4))
    return msgspec.msgpack.encode(_Told(VERSION, by_topic))


def decode_loads(data: bytes | None) -> dict[Partition, Load]:
    """Return what a member has told; nothing for what is not ours, or of a later version."""
    try:
        told = msgspec.msgpack.decode(data or b"", type=_Told)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    if told.version != VERSION:
        return {}
    return {
        (topic, partition): Load(*each)
        for topic, loads in told.loads.items()
        for partition, each in loads.items()
        if all(0 <= value < float("inf") for value in each)
    }


def assign_by_load(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return who has which partitions next; what moves is nobody's until its owner has given it up."""
    counts = subscribed_topics(subscriptions, partition_counts)
    sharing = _Sharing(subscriptions, counts)
    sharing.place(sharing.free)
    sharing.even_out(moves_max(sum(counts.values())))
    owned = {member_id: _partitions(each.owned) for member_id, each in subscriptions.items()}
    holdings = sharing.holdings
    kept = {each for member_id, partitions in owned.items() for each in partitions & holdings[member_id]}
    given_up = {each for member_id, partitions in owned.items() for each in partitions - holdings[member_id]}
    leaving = given_up - kept
    return collect({member_id: partitions - leaving for member_id, partitions in holdings.items()})


def moves_max(count: int) -> int:
    """Return how many of so many partitions may change hands in one rebalance."""
    return max(MOVES_MIN, count // MOVES_PART)


class _Sharing:
    """Who has what, and what that weighs, while it is shared out."""

    def __init__(self, subscriptions: Mapping[str, Subscription], counts: Mapping[str, int]) -> None:
        self._order = member_order(subscriptions)
        self._topics = {member_id: frozenset(each.topics) for member_id, each in subscriptions.items()}
        every = [(topic, each) for topic, count in counts.items() for each in range(count)]
        self._weights = weights_of(every, subscriptions)
        claims = settle_claims(subscriptions, counts, lambda each: (each.owned, each.generation_id))
        self.holdings: dict[str, set[Partition]] = {
            member_id: {
                each for each in claims.owned.get(member_id, ()) if each[0] in self._topics[member_id]
            }
            for member_id in self._order
        }
        self._counts = Counter(
            (member_id, topic) for member_id, partitions in self.holdings.items() for topic, _ in partitions
        )
        self._totals = {
            member_id: sum(self._weights[each] for each in partitions)
            for member_id, partitions in self.holdings.items()
        }
        owned = {each for partitions in self.holdings.values() for each in partitions}
        self.free = [each for each in every if each not in owned]

    def place(self, partitions: Iterable[Partition]) -> None:
        """Give each of these, the heaviest first, to who has the least and wants it."""
        for each in sorted(partitions, key=lambda each: (-self._weights[each], each)):
            topic = each[0]
            wanting = [member_id for member_id in self._order if topic in self._topics[member_id]]
            if wanting:
                taker = min(
                    wanting, key=lambda member_id: (self._totals[member_id], self._counts[member_id, topic])
                )
                self._give(each, taker)

    def even_out(self, most: int) -> None:
        """Move at most so many partitions from who has more than a fair share."""
        moved: set[Partition] = set()
        while len(moved) < most and (found := self._best_move(moved)) is not None:
            partition, giver, taker = found
            self.holdings[giver].remove(partition)
            self._counts[giver, partition[0]] -= 1
            self._totals[giver] -= self._weights[partition]
            self._give(partition, taker)
            moved.add(partition)

    def _best_move(self, moved: set[Partition]) -> tuple[Partition, str, str] | None:
        """Return the move from the fullest member that lowers most what the fuller of the two has.

        Of equal ones it is of the topic of which the taker has the fewest compared with the giver.
        """
        fair = sum(self._totals.values()) / len(self._totals)
        for giver in sorted(self._order, key=lambda each: -self._totals[each]):
            if self._totals[giver] <= EVENNESS * fair:
                return None
            best: tuple[float, int, Partition, str] | None = None
            for partition in sorted(self.holdings[giver] - moved):
                weight, topic = self._weights[partition], partition[0]
                wanting = [each for each in self._order if each != giver and topic in self._topics[each]]
                if not wanting:
                    continue
                taker = min(wanting, key=lambda each: self._totals[each])
                taken = self._totals[taker] + weight
                fuller = round(max(self._totals[giver] - weight, taken), 6)
                fewer = self._counts[taker, topic] - self._counts[giver, topic]
                found = fuller, fewer, partition, taker
                if taken < LESS * self._totals[giver] and (best is None or found < best):
                    best = found
            if best is not None:
                return best[2], giver, best[3]
        return None

    def _give(self, partition: Partition, member_id: str) -> None:
        self.holdings[member_id].add(partition)
        self._counts[member_id, partition[0]] += 1
        self._totals[member_id] += self._weights[partition]


def weights_of(
    partitions: Iterable[Partition], subscriptions: Mapping[str, Subscription]
) -> dict[Partition, float]:
    """Return what each partition weighs, 1 on average; one that nobody has measured weighs as much.

    Where two have measured a partition, its owner counts.
    """
    every = list(partitions)
    told = _loads_of(subscriptions)
    known = {each: told[each] for each in every if each in told}
    total_bytes = sum(each.bytes_per_s for each in known.values()) or 1.0
    total_pushes = sum(each.pushes for each in known.values()) or 1.0
    weights = {}
    for each in every:
        load = known.get(each)
        share = 1.0 if load is None else _share(load, total_bytes, total_pushes, len(known))
        weights[each] = COUNT_SHARE + (1 - COUNT_SHARE) * share
    return weights


def _share(load: Load, total_bytes: float, total_pushes: float, count: int) -> float:
    """Return a partition's part of all bytes and all pushes, 1 for an average one."""
    return count * (load.bytes_per_s / total_bytes + load.pushes / total_pushes) / 2


def _loads_of(subscriptions: Mapping[str, Subscription]) -> dict[Partition, Load]:
    loads: dict[Partition, Load] = {}
    owners: dict[Partition, Load] = {}
    for member_id in member_order(subscriptions):
        each = subscriptions[member_id]
        owned = _partitions(each.owned)
        for partition, load in decode_loads(each.user_data).items():
            (owners if partition in owned else loads)[partition] = load
    return {**loads, **owners}


def _partitions(owned: Owned) -> frozenset[Partition]:
    return frozenset((topic, each) for topic, partitions in owned.items() for each in partitions)


def by_load(tell: Callable[[], bytes]) -> Assignor:
    """Return the assignor of a member that tells this when it joins."""
    return Assignor(NAME, assign_by_load, cooperative=True, user_data=lambda _owned, _generation: tell())
