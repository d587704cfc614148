"""Round robin: all partitions of all topics are assigned in turn."""

from bisect import bisect_left
from collections.abc import Mapping

from kohort.client.assignors.subscription import (
    Assignment,
    Partition,
    Subscription,
    collect,
    member_order,
    subscribed_topics,
)


def assign_roundrobin(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return the partitions dealt in turn, passing over members that don't subscribe to a topic.

    Source: RoundRobinAssignor.
    """
    order = member_order(subscriptions)
    seats: dict[str, list[int]] = {}
    for seat, member_id in enumerate(order):
        for topic in subscriptions[member_id].topics:
            seats.setdefault(topic, []).append(seat)
    dealt: dict[str, list[Partition]] = {member_id: [] for member_id in subscriptions}
    turn = 0
    for topic, count in subscribed_topics(subscriptions, partition_counts).items():
        taking = seats[topic]
        first = bisect_left(taking, turn)
        for partition in range(count):
            seat = taking[(first + partition) % len(taking)]
            dealt[order[seat]].append((topic, partition))
            turn = seat + 1
    return collect(dealt)
