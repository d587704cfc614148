"""Sticky: balanced within one, and everybody keeps what they had as far as the balance allows.

A member that speaks the eager protocol gives all its partitions up before it joins, so it tells the
leader in its user data what it owned: Kafka's StickyAssignorUserData, versions 0 and 1.
Source: AbstractStickyAssignor, KIP-54.
"""

import heapq
import struct
from collections.abc import Mapping

from kohort.client.assignors.subscription import Assignment, Owned, Subscription, collect, member_order

Partition = tuple[str, int]
Holdings = dict[str, list[Partition]]


def assign_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return a balanced assignment with as few moves as possible."""
    return collect(balance(subscriptions, partition_counts, _owned_by_user_data))


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


def balance(
    subscriptions: Mapping[str, Subscription],
    partition_counts: Mapping[str, int],
    owned_of: "OwnedOf",
) -> Holdings:
    """Return the partitions of each member: kept, then filled up, then evened out."""
    order = member_order(subscriptions)
    wanted = {member_id: frozenset(subscriptions[member_id].topics) for member_id in order}
    free = {
        (topic, partition)
        for topic in frozenset().union(*wanted.values())
        for partition in range(partition_counts.get(topic, 0))
    }
    holdings: Holdings = {member_id: [] for member_id in order}
    for partition, member_id in _kept(subscriptions, owned_of).items():
        if partition in free and partition[0] in wanted[member_id]:
            holdings[member_id].append(partition)
            free.discard(partition)
    if len(set(wanted.values())) == 1:
        free |= _shed_over_quota(holdings, order, len(free))
    _fill(holdings, order, wanted, sorted(free))
    if len(set(wanted.values())) > 1:
        _even_out(holdings, order, wanted)
    return holdings


class OwnedOf:
    """Reads what a member owned, and in which generation, from its subscription."""

    def __call__(self, subscription: Subscription) -> tuple[Owned, int]:
        """Return what the subscription itself says: a cooperative member's word."""
        return subscription.owned, subscription.generation_id


class _OwnedByUserData(OwnedOf):
    def __call__(self, subscription: Subscription) -> tuple[Owned, int]:
        if not subscription.user_data:
            return super().__call__(subscription)
        try:
            return _read_user_data(subscription.user_data)
        except (struct.error, UnicodeDecodeError):  # Another client's bytes: it simply keeps nothing.
            return {}, -1


_owned_by_user_data = _OwnedByUserData()


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


def _kept(subscriptions: Mapping[str, Subscription], owned_of: OwnedOf) -> dict[Partition, str]:
    """Return the last owner of each partition; where two claim it, the newer generation counts.

    Two that claim it in the same generation are both mistaken, and neither keeps it (KAFKA-12984).
    """
    owner: dict[Partition, tuple[int, str]] = {}
    disputed: set[Partition] = set()
    for member_id in member_order(subscriptions):
        owned, generation_id = owned_of(subscriptions[member_id])
        for topic, partitions in owned.items():
            for each in partitions:
                before = owner.get((topic, each))
                if before is not None and before[0] == generation_id:
                    disputed.add((topic, each))
                elif before is None or before[0] < generation_id:
                    owner[topic, each] = (generation_id, member_id)
                    disputed.discard((topic, each))
    return {each: member_id for each, (_, member_id) in owner.items() if each not in disputed}


def _shed_over_quota(holdings: Holdings, order: list[str], free: int) -> set[Partition]:
    """Take from every member what lies over its share, and return it.

    As many members as there are partitions left over may hold one more than the rest; those who
    held it before keep it.
    """
    total = free + sum(map(len, holdings.values()))
    least, larger_shares = divmod(total, len(order))
    shed: set[Partition] = set()
    for member_id in order:
        mine = sorted(holdings[member_id])
        quota = least
        if len(mine) > least and larger_shares > 0:
            quota += 1
            larger_shares -= 1
        shed.update(mine[quota:])
        holdings[member_id] = mine[:quota]
    return shed


def _fill(
    holdings: Holdings, order: list[str], wanted: Mapping[str, frozenset[str]], free: list[Partition]
) -> None:
    """Give each free partition to the member with the fewest among those who want its topic."""
    rank = {member_id: position for position, member_id in enumerate(order)}
    heaps: dict[str, list[tuple[int, int, str]]] = {}
    for topic, partition in free:
        heap = heaps.get(topic)
        if heap is None:
            heap = [(len(holdings[each]), rank[each], each) for each in order if topic in wanted[each]]
            heapq.heapify(heap)
            heaps = {topic: heap}  # Partitions come sorted by topic: the last one's heap is done with.
        _, position, member_id = heap[0]
        holdings[member_id].append((topic, partition))
        heapq.heapreplace(heap, (len(holdings[member_id]), position, member_id))


def _even_out(holdings: Holdings, order: list[str], wanted: Mapping[str, frozenset[str]]) -> None:
    """Move partitions from the fullest to the emptiest who wants them, while that narrows the gap."""
    moved = True
    while moved:
        moved = False
        by_load = sorted(order, key=lambda each: len(holdings[each]))
        for giver in reversed(by_load):
            for taker in by_load:
                if len(holdings[giver]) - len(holdings[taker]) < 2:
                    break
                fitting = next((each for each in sorted(holdings[giver]) if each[0] in wanted[taker]), None)
                if fitting is not None:
                    holdings[giver].remove(fitting)
                    holdings[taker].append(fitting)
                    moved = True
                    break
            if moved:
                break
