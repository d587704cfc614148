"""Round robin: all partitions of all topics dealt out one by one."""

from collections.abc import Mapping
from itertools import cycle

from kohort.client.assignors.subscription import Assignment, Subscription, collect, member_order


def assign_roundrobin(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return the partitions dealt in turn, passing over members that don't subscribe to a topic.

    Source: RoundRobinAssignor.
    """
    dealt: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in subscriptions}
    wanted = {member_id: frozenset(each.topics) for member_id, each in subscriptions.items()}
    turn = cycle(member_order(subscriptions))
    for topic in sorted(frozenset().union(*wanted.values())):
        for partition in range(partition_counts.get(topic, 0)):
            member_id = next(each for each in turn if topic in wanted[each])
            dealt[member_id].append((topic, partition))
    return collect(dealt)
