"""All partitions decided in one go: after a broker has come or gone, or when a controller takes over."""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from kohort.broker.controller.election import settled
from kohort.broker.controller.facts import LiveBrokers, TopicRules
from kohort.broker.metadata.partition_state import PartitionState

PartitionKey = tuple[UUID, int]
"""Topic id and index."""


class Change(NamedTuple):
    """One transaction: `after` replaces `before`, if that is still the current state."""

    key: PartitionKey
    before: PartitionState
    after: PartitionState


def decide(
    partitions: Iterable[tuple[PartitionKey, PartitionState]],
    brokers: LiveBrokers,
    rules_of: Callable[[UUID], TopicRules],
) -> list[Change]:
    """Return the changes that these partitions need, in the order in which they come."""
    changes = []
    rules: dict[UUID, TopicRules] = {}
    for key, state in partitions:
        topic_id = key[0]
        found = rules.get(topic_id)
        if found is None:
            found = rules[topic_id] = rules_of(topic_id)
        after = settled(state, brokers, found)
        if after is not state:
            changes.append(Change(key, state, after))
    return changes
