"""Partitions by the id of their topic, as in assignments."""

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""A target assignment. No topic has an empty set."""

Held = Mapping[UUID, Mapping[int, int]]
"""A current assignment: the epoch in which each partition was assigned (KIP-1251). No topic is empty."""


class TopicPartitions(Protocol):
    """Partitions of one topic in a message."""

    @property
    def topic_id(self) -> UUID:
        """The topic."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """Their indexes."""
        ...


def owns_any(owned: Iterable[TopicPartitions], held: Held) -> bool:
    """Return whether a member that says it owns `owned` still has one of these."""
    return any(index in held.get(each.topic_id, ()) for each in owned for index in each.partitions)


def owns_only(owned: Iterable[TopicPartitions], held: Held) -> bool:
    """Return whether a member that says it owns `owned` has nothing but these."""
    return all(each.topic_id in held and held[each.topic_id].keys() >= set(each.partitions) for each in owned)


def same_partitions(one: Held, other: Held) -> bool:
    """Return whether both are the same partitions, since whenever."""
    return one.keys() == other.keys() and all(one[topic].keys() == other[topic].keys() for topic in one)
