"""Partitions counted by who leads them and who is in sync, as the metadata have them. Pure."""

from typing import NamedTuple

from kohort.broker.metadata import Snapshot

MIN_ISR = "min.insync.replicas"


class ReplicaFacts(NamedTuple):
    """Partitions counted as the metadata have them; what the controller alone tells is 0 at all others."""

    leaders: int = 0
    replicas: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    is_controller: bool = False
    topics: int = 0
    partitions: int = 0
    offline: int = 0
    led_by_others: int = 0
    """Led by another than the first replica."""
    brokers: int = 0


def replica_facts(snapshot: Snapshot, node_id: int, min_insync_replicas: int) -> ReplicaFacts:
    """Return the counts; the minimum is that of topics without their own."""
    leaders = replicas = under = under_min = at_min = moving = partitions = offline = led_by_others = 0
    live = frozenset(each.node_id for each in snapshot.brokers)
    for topic in snapshot.topics.values():
        minimum = int(topic.configs.get(MIN_ISR, min_insync_replicas))
        for state in topic.partitions:
            partitions += 1
            replicas += node_id in state.replicas
            offline += state.leader not in live
            led_by_others += state.replicas[:1] != (state.leader,)
            if state.leader == node_id:
                in_sync = len(state.isr)
                needed = min(minimum, len(state.replicas))
                leaders += 1
                under += in_sync < len(state.replicas)
                under_min += in_sync < needed
                at_min += in_sync == needed
                moving += bool(state.adding or state.removing)
    here = ReplicaFacts(leaders, replicas, under, under_min, at_min, moving)
    if snapshot.controller_id != node_id:
        return here
    return here._replace(
        is_controller=True,
        topics=len(snapshot.topics),
        partitions=partitions,
        offline=offline,
        led_by_others=led_by_others,
        brokers=len(live),
    )
