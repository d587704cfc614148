"""Where the replicas of new partitions go: in different racks, and on every broker as many as on others.

Leaders alternate between the racks; so do the replicas after each, and within a rack each partition starts
one broker further. A dead broker gets a replica only if the live ones do not suffice, and leads nothing.
Source: org.apache.kafka.metadata.placement.StripedReplicaPlacer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Choose = Callable[[int], int]
"""Returns a number from 0 up to, not including, its argument."""


class NotEnoughBrokers(Exception):
    """There are fewer brokers than requested replicas, or none is alive."""


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may be given replicas."""

    node_id: int
    rack: str | None = None
    is_live: bool = True


def place(
    brokers: Iterable[UsableBroker], count: int, replication_factor: int, choose: Choose
) -> list[tuple[int, ...]]:
    """Return the brokers of `count` partitions, each partition's leader first. Raises: NotEnoughBrokers."""
    usable = list(brokers)
    if replication_factor > len(usable):
        raise NotEnoughBrokers(
            f"a replication factor of {replication_factor} needs as many brokers, there are {len(usable)}"
        )
    if not any(each.is_live for each in usable):
        raise NotEnoughBrokers("all brokers are dead")
    racks = _Racks(usable, choose)
    return [racks.place(replication_factor) for _ in range(count)]


class _Ring:
    """Brokers that take turns: each partition begins one further than the one before that used them."""

    __slots__ = ("_given", "_nodes", "_offset", "_partition")

    def __init__(self, nodes: Iterable[int], choose: Choose) -> None:
        self._nodes = _shuffled(sorted(nodes), choose)
        self._offset = choose(len(self._nodes)) if self._nodes else 0
        self._partition = -1
        self._given = 0

    def next(self, partition: int) -> int | None:
        """Return the next broker for this partition, None where it has them all."""
        if partition != self._partition and self._nodes:
            self._partition, self._given = partition, 0
            self._offset = (self._offset + 1) % len(self._nodes)
        if self._given >= len(self._nodes):
            return None
        node_id = self._nodes[(self._offset + self._given) % len(self._nodes)]
        self._given += 1
        return node_id


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], choose: Choose) -> None:
        names = sorted({each.rack for each in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._live, self._dead = (
            [
                _Ring(
                    (each.node_id for each in brokers if each.rack == rack and each.is_live == live), choose
                )
                for rack in names
            ]
            for live in (True, False)
        )
        self._count = len(names)
        self._offset = choose(self._count)
        self._partition = -1

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the brokers of the next partition."""
        self._partition += 1
        first_rack, leader = self._leader()
        nodes = [leader]
        rack = self._offset
        is_to_pass = True  # The leader's rack has one of them already, in the first round.
        while len(nodes) < replication_factor:
            if rack == first_rack and is_to_pass:
                is_to_pass = False
            elif (node_id := self._next(rack)) is not None:
                nodes.append(node_id)
            rack = (rack + 1) % self._count
        self._offset = (self._offset + 1) % self._count
        return tuple(nodes)

    def _leader(self) -> tuple[int, int]:
        for step in range(self._count):
            rack = (self._offset + step) % self._count
            node_id = self._live[rack].next(self._partition)
            if node_id is not None:
                return rack, node_id
        raise AssertionError("somebody lives")

    def _next(self, rack: int) -> int | None:
        node_id = self._live[rack].next(self._partition)
        return self._dead[rack].next(self._partition) if node_id is None else node_id


def _shuffled(nodes: list[int], choose: Choose) -> list[int]:
    for place_ in range(len(nodes) - 1, 0, -1):
        other = choose(place_ + 1)
        nodes[place_], nodes[other] = nodes[other], nodes[place_]
    return nodes
