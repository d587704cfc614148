"""Sticky: balanced within one, and members keep their partitions as far as the balance allows.

A member with the eager protocol revokes all its partitions before it joins, so it sends its former
partitions to the leader in its user data: Kafka's StickyAssignorUserData, versions 0 and 1.
Source: StickyAssignor, AbstractStickyAssignor, KIP-54.
"""

import struct
from collections.abc import Mapping

from kohort.client.assignors.claims import ClaimOf, settle_claims
from kohort.client.assignors.equal_wishes import share_equally
from kohort.client.assignors.plan import Plan
from kohort.client.assignors.racks import RackMap
from kohort.client.assignors.subscription import (
    Assignment,
    Owned,
    Subscription,
    collect,
    racks_of,
    subscribed_topics,
)
from kohort.client.assignors.unequal_wishes import balance_wishes


def assign_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return a balanced assignment with as few moves as possible."""
    return collect(plan(subscriptions, partition_counts, _claim_in_user_data).holdings)


def plan(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int], claim_of: ClaimOf
) -> Plan:
    """Return the new owner of each partition, whoever owns it now."""
    counts = subscribed_topics(subscriptions, partition_counts)
    claims = settle_claims(subscriptions, counts, claim_of)
    racks = RackMap(subscriptions, counts, racks_of(partition_counts))
    if len({frozenset(each.topics) for each in subscriptions.values()}) == 1:
        return share_equally(claims, counts, racks)
    return balance_wishes(subscriptions, claims, counts, racks)


def sticky_user_data(owned: Owned, generation_id: int) -> bytes | None:
    """Return StickyAssignorUserData of version 1, or None for a member that never owned anything."""
    if generation_id < 0:
        return None
    parts = [struct.pack(">i", len(owned))]
    for topic, partitions in owned.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si", len(name), name, len(partitions)))
        parts.append(struct.pack(f">{len(partitions)}i", *partitions))
    parts.append(struct.pack(">i", generation_id))
    return b"".join(parts)


def _claim_in_user_data(subscription: Subscription) -> tuple[Owned, int]:
    if not subscription.user_data:
        return {}, -1
    try:
        return _read_user_data(subscription.user_data)
    except (struct.error, UnicodeDecodeError):  # Another client's bytes: the member keeps nothing.
        return {}, -1


def _read_user_data(data: bytes) -> tuple[Owned, int]:
    owned: dict[str, tuple[int, ...]] = {}
    (topics,) = struct.unpack_from(">i", data)
    position = 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, position)
        topic = data[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (count,) = struct.unpack_from(">i", data, position)
        if not 0 <= count <= (len(data) - position) // 4:
            raise struct.error("a count beyond the bytes")
        owned[topic] = struct.unpack_from(f">{count}i", data, position + 4)
        position += 4 + 4 * count
    generation_id = struct.unpack_from(">i", data, position)[0] if len(data) >= position + 4 else -1
    return owned, generation_id
