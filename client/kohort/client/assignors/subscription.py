"""The input and the output of an assignor."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from kohort.client.assignors.java_order import java_string_order

Owned = Mapping[str, tuple[int, ...]]
"""Partitions by topic."""

Assignment = dict[str, dict[str, tuple[int, ...]]]
"""Partitions by topic, by member id; every member is included, also those without partitions."""

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""

Racks = Mapping[str, tuple[frozenset[str], ...]]
"""By topic and partition, the racks that hold a replica."""


class Subscription(msgspec.Struct, frozen=True):
    """One member's subscription: its topics, and the partitions it owned in which generation."""

    topics: tuple[str, ...]
    owned: Owned = {}
    generation_id: int = -1
    user_data: bytes | None = None
    rack_id: str | None = None
    group_instance_id: str | None = None


Assign = Callable[[Mapping[str, Subscription], Mapping[str, int]], Assignment]


@dataclass(frozen=True, slots=True)
class Assignor:
    """A named way to hand out partitions.

    `assign(subscriptions by member id, number of partitions by topic)` is a pure function; topics that
    don't exist are absent from the second mapping. `user_data(owned, generation id)` gives the bytes
    that a member sends to the leader with its topics. A `cooperative` assignor leaves out, in a
    first round, partitions that another member has to revoke first.
    """

    name: str
    assign: Assign
    cooperative: bool = False
    user_data: Callable[[Owned, int], bytes | None] | None = None


@dataclass(frozen=True, slots=True)
class TopicCounts(Mapping[str, int]):
    """How many partitions each topic has, and, for assignors that ask, where their replicas are."""

    counts: Mapping[str, int]
    racks: Racks = field(default_factory=dict)

    def __getitem__(self, topic: str) -> int:
        return self.counts[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)


def only_topics(partition_counts: Mapping[str, int], topics: Collection[str]) -> Mapping[str, int]:
    """Return the counts, and the racks if they are known, of these topics."""
    counts = {topic: partition_counts[topic] for topic in topics if topic in partition_counts}
    racks = racks_of(partition_counts)
    return TopicCounts(counts, {topic: racks[topic] for topic in counts if topic in racks})


def racks_of(partition_counts: Mapping[str, int]) -> Racks:
    """Return the racks of each partition's replicas, nothing where only counts were given."""
    return partition_counts.racks if isinstance(partition_counts, TopicCounts) else {}


def member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids in Kafka's order: static members by instance id, then the rest by id.

    A static member keeps its place over restarts although its member id changes.
    Source: AbstractPartitionAssignor.MemberInfo.
    """

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, java_string_order(member_id if instance_id is None else instance_id))

    return sorted(subscriptions, key=rank)


def subscribed_topics(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of partitions of each existing topic with a subscriber, by name."""
    wanted = frozenset(topic for each in subscriptions.values() for topic in each.topics)
    return {topic: partition_counts[topic] for topic in sorted(wanted) if partition_counts.get(topic)}


def collect(members: Mapping[str, Collection[Partition]]) -> Assignment:
    """Return the assignment with each member's partitions by topic, in order."""
    assignment: Assignment = {}
    for member_id, partitions in members.items():
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        assignment[member_id] = {topic: tuple(each) for topic, each in by_topic.items()}
    return assignment
