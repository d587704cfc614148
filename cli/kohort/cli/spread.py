"""Which replica goes where, so that brokers hold and lead as many as each other, with few moves. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kohort.client import TopicPartition

Replicas = tuple[int, ...]
Assignment = Mapping[TopicPartition, Replicas]
"""The brokers of each partition, the preferred leader first."""


class TooFewBrokers(Exception):
    """There are fewer brokers than a partition is to have replicas."""


class TargetBroker(NamedTuple):
    """A broker that may hold replicas, and its rack."""

    node_id: int
    rack: str | None = None


def spread(
    present: Assignment, brokers: Iterable[TargetBroker], factor: int | None = None
) -> dict[TopicPartition, Replicas]:
    """Return where the partitions should be, of those alone that are to change.

    Each keeps the replicas that are on one of the brokers; `factor` is how many each shall have, None as many
    as it has. Raises: TooFewBrokers.
    """
    plan = _Plan(present, tuple(brokers))
    for partition, replicas in present.items():
        plan.fill(partition, len(replicas) if factor is None else factor)
    plan.level_replicas()
    plan.level_leaders()
    return {each: tuple(nodes) for each, nodes in plan.nodes.items() if tuple(nodes) != present[each]}


class _Plan:
    def __init__(self, present: Assignment, brokers: Sequence[TargetBroker]) -> None:
        self.racks = {each.node_id: each.rack for each in brokers}
        self.nodes = {
            partition: [each for each in replicas if each in self.racks]
            for partition, replicas in present.items()
        }
        self.held: dict[int, dict[TopicPartition, None]] = {node_id: {} for node_id in self.racks}
        for partition, nodes in self.nodes.items():
            for each in nodes:
                self.held[each][partition] = None

    def fill(self, partition: TopicPartition, count: int) -> None:
        """Give the partition so many replicas, new ones in other racks and on those who hold least."""
        if count > len(self.racks):
            there = len(self.racks)
            raise TooFewBrokers(
                f"{count} replicas of topic {partition.topic} need as many brokers, there are {there}: "
                f"start another broker, or give --replication-factor {there}"
            )
        nodes = self.nodes[partition]
        for each in nodes[count:]:
            del self.held[each][partition]
        del nodes[count:]
        while len(nodes) < count:
            taken = [self.racks[each] for each in nodes]
            others = (each for each in self.racks if each not in nodes)
            new = min(others, key=lambda each: (taken.count(self.racks[each]), len(self.held[each]), each))
            nodes.append(new)
            self.held[new][partition] = None

    def level_replicas(self) -> None:
        """Move replicas from who holds most to who holds least, until none holds two more than another."""
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        by_load = sorted(self.held, key=lambda each: (len(self.held[each]), each))
        for most in reversed(by_load):
            for least in by_load:
                if len(self.held[most]) - len(self.held[least]) < 2:
                    break
                for partition in self.held[most]:
                    if self._may_move(partition, most, least):
                        self._move(partition, most, least)
                        return True
        return False

    def _may_move(self, partition: TopicPartition, old: int, new: int) -> bool:
        """Return whether it is not there yet, and lies in as many racks afterwards."""
        nodes = self.nodes[partition]
        if new in nodes:
            return False
        after = {self.racks[new], *(self.racks[each] for each in nodes if each != old)}
        return len(after) >= len({self.racks[each] for each in nodes})

    def _move(self, partition: TopicPartition, old: int, new: int) -> None:
        nodes = self.nodes[partition]
        nodes[nodes.index(old)] = new
        del self.held[old][partition]
        self.held[new][partition] = None

    def level_leaders(self) -> None:
        """Put other replicas first where a broker should lead two more than another."""
        leads = dict.fromkeys(self.racks, 0)
        for nodes in self.nodes.values():
            leads[nodes[0]] += 1
        changes = True
        while changes:
            changes = False
            for nodes in self.nodes.values():
                best = min(nodes, key=lambda each: (leads[each], each))
                if leads[nodes[0]] - leads[best] > 1:
                    leads[nodes[0]] -= 1
                    leads[best] += 1
                    nodes.remove(best)
                    nodes.insert(0, best)
                    changes = True
