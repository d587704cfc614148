"""The brokers of a cluster and how its partitions are, counted from one look at the metadata. Pure."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kohort.client import TopicDescription
from kohort.client.values import Node

PROBLEMS_KEPT = 50


class BrokerCounts(msgspec.Struct):
    """A broker: how many partitions it leads, has replicas of, and has in sync. No address: not known."""

    node_id: int
    host: str = ""
    port: int = 0
    rack: str | None = None
    leaders: int = 0
    replicas: int = 0
    in_sync: int = 0


class PartitionProblem(msgspec.Struct):
    """A partition that has no leader, or lacks replicas in sync."""

    topic: str
    partition: int
    is_offline: bool
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class ClusterCounts(msgspec.Struct):
    """The brokers, and the partitions of the topics that may be described; `controller` is -1 for unknown."""

    controller: int = -1
    brokers: list[BrokerCounts] = []
    topics: int = 0
    partitions: int = 0
    offline: int = 0
    under_replicated: int = 0
    problems: list[PartitionProblem] = []
    """The first of them."""


def counted(
    topics: Mapping[str, TopicDescription], nodes: Iterable[Node], controller: int, known: Iterable[int]
) -> ClusterCounts:
    """Return the counts. `known`: the brokers by id alone, where the cluster does not list its nodes."""
    brokers = {each: BrokerCounts(each) for each in known}
    brokers |= {each.node_id: BrokerCounts(each.node_id, each.host, each.port, each.rack) for each in nodes}
    counts = ClusterCounts(controller, topics=len(topics))
    for name, topic in topics.items():
        for each in topic.partitions:
            counts.partitions += 1
            for broker in _those(brokers, each.replicas):
                broker.replicas += 1
            for broker in _those(brokers, each.isr):
                broker.in_sync += 1
            for broker in _those(brokers, (each.leader,)):
                broker.leaders += 1
            is_offline, is_short = each.leader < 0, len(each.isr) < len(each.replicas)
            counts.offline += is_offline
            counts.under_replicated += is_short
            if (is_offline or is_short) and len(counts.problems) < PROBLEMS_KEPT:
                problem = PartitionProblem(
                    name, each.partition, is_offline, each.leader, each.replicas, each.isr
                )
                counts.problems.append(problem)
    counts.brokers = [brokers[each] for each in sorted(brokers)]
    return counts


def _those(brokers: Mapping[int, BrokerCounts], ids: Iterable[int]) -> Iterator[BrokerCounts]:
    return (brokers[each] for each in ids if each in brokers)
