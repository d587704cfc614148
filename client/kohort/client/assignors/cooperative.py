"""Cooperative sticky: like sticky, but a moved partition is revoked in one rebalance and assigned in the
next.

Source: CooperativeStickyAssignor, KIP-429.
"""

import struct
from collections.abc import Mapping

from kohort.client.assignors.plan import Plan
from kohort.client.assignors.sticky import plan
from kohort.client.assignors.subscription import Assignment, Owned, Partition, Subscription, collect


def assign_cooperative_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return the sticky assignment without the partitions that another member still owns.

    Their owners see that they have to give them up, do so, and join again: then they are free.
    """
    found = plan(subscriptions, partition_counts, _claim)
    leaving = _leaving(found, subscriptions) if found.leaving is None else found.leaving
    return collect(
        {
            member_id: [each for each in partitions if each not in leaving]
            for member_id, partitions in found.holdings.items()
        }
    )


def cooperative_user_data(owned: Owned, generation_id: int) -> bytes:
    """Return the generation in which the member owned its partitions: older subscriptions lack it."""
    del owned  # These are in the subscription itself.
    return struct.pack(">i", generation_id)


def _claim(subscription: Subscription) -> tuple[Owned, int]:
    generation_id = subscription.generation_id
    if generation_id < 0 and subscription.user_data is not None and len(subscription.user_data) >= 4:
        (generation_id,) = struct.unpack_from(">i", subscription.user_data)
    return subscription.owned, generation_id


def _leaving(found: Plan, subscriptions: Mapping[str, Subscription]) -> frozenset[Partition]:
    """Return the partitions that lose their owner, unless the new owner claims them too."""
    revoked: set[Partition] = set()
    kept: set[Partition] = set()
    for member_id, partitions in found.holdings.items():
        owned = _partitions(subscriptions[member_id].owned)
        revoked |= owned.difference(partitions)
        kept |= owned.intersection(partitions)
    return frozenset(revoked - kept)


def _partitions(owned: Owned) -> frozenset[Partition]:
    return frozenset((topic, each) for topic, partitions in owned.items() for each in partitions)
