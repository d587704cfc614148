"""Preferred leaders: the first replica, so that leaders are spread as evenly as the replicas.

Source: ReplicationControlManager.maybeBalancePartitionLeaders; `leader.imbalance.per.broker.percentage`.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from kohort.broker.controller.election import with_epochs
from kohort.broker.controller.facts import LiveBrokers
from kohort.broker.metadata.partition_state import PartitionState


def preferred(state: PartitionState, brokers: LiveBrokers) -> PartitionState:
    """Return the state led by its first replica, the same object where that one leads or can't."""
    first = state.replicas[0]
    broker = brokers.get(first)
    if first == state.leader or first not in state.isr or broker is None or not broker.may_be_chosen:
        return state
    return with_epochs(state, replace(state, leader=first))


def imbalance_percentages(states: Iterable[PartitionState]) -> dict[int, float]:
    """Return of each broker how many of the partitions that it should lead another one leads, in percent."""
    should: Counter[int] = Counter()
    does_not: Counter[int] = Counter()
    for state in states:
        first = state.replicas[0]
        should[first] += 1
        does_not[first] += state.leader != first
    return {node_id: 100 * does_not[node_id] / count for node_id, count in should.items()}


def balanced(
    states: Iterable[PartitionState], brokers: LiveBrokers, percentage_max: float
) -> list[tuple[PartitionState, PartitionState]]:
    """Return the changes, before and after, that make brokers beyond the percentage lead their partitions
    again."""
    known = list(states)
    percentages = imbalance_percentages(known)
    changes = []
    for state in known:
        if percentages[state.replicas[0]] > percentage_max:
            after = preferred(state, brokers)
            if after is not state:
                changes.append((state, after))
    return changes


def is_drained(node_id: int, states: Iterable[PartitionState], brokers: LiveBrokers) -> bool:
    """Return whether the broker can stop: no other broker could lead its remaining partitions now."""
    for state in states:
        if state.leader != node_id:
            continue
        if any(each in brokers and brokers[each].may_be_chosen for each in state.isr if each != node_id):
            return False
    return True
