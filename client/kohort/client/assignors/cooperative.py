"""Cooperative sticky: as sticky, but whatever moves is given up in one rebalance and taken in the next.

Source: CooperativeStickyAssignor, KIP-429.
"""

from collections.abc import Mapping

from kohort.client.assignors.sticky import OwnedOf, balance
from kohort.client.assignors.subscription import Assignment, Subscription, collect


def assign_cooperative_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return the sticky assignment without the partitions that somebody else still reads.

    Their owners see that they have to give them up, do so, and join again: then they are free.
    """
    holdings = balance(subscriptions, partition_counts, OwnedOf())
    reader = {
        (topic, partition): member_id
        for member_id, subscription in subscriptions.items()
        for topic, partitions in subscription.owned.items()
        for partition in partitions
    }
    return collect(
        {
            member_id: [each for each in partitions if reader.get(each, member_id) == member_id]
            for member_id, partitions in holdings.items()
        }
    )
