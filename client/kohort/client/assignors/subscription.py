"""What an assignor is given and what it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

Owned = Mapping[str, tuple[int, ...]]
"""Partitions by topic."""

Assignment = dict[str, dict[str, tuple[int, ...]]]
"""Partitions by topic, by member id; every member is there, also those with nothing."""


class Subscription(msgspec.Struct, frozen=True):
    """One member's wishes: its topics, and what it owned in which generation before."""

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
    that a member sends the leader along with its topics. A `cooperative` assignor leaves out, in a
    first round, what has to be given up by somebody before.
    """

    name: str
    assign: Assign
    cooperative: bool = False
    user_data: Callable[[Owned, int], bytes | None] | None = None


def member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids in Kafka's order: static members by instance id, then the rest by id.

    A static member keeps its place over restarts although its member id changes.
    Source: AbstractPartitionAssignor.MemberInfo.
    """

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(subscriptions, key=rank)


def collect(members: Mapping[str, list[tuple[str, int]]]) -> Assignment:
    """Return the assignment with each member's partitions by topic, in order."""
    assignment: Assignment = {}
    for member_id, partitions in members.items():
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        assignment[member_id] = {topic: tuple(each) for topic, each in by_topic.items()}
    return assignment
