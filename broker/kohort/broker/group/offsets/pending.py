"""Offsets of open transactions: they count once the transaction is committed (KIP-98, KIP-447).

Of several writes for a partition the newest committed one counts, in any order of the ends of their
transactions. Source: org.apache.kafka.coordinator.group.OffsetMetadataManager.
"""

from collections.abc import Collection
from typing import NamedTuple

from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue


class Pending(NamedTuple):
    """A write, and how many were before it."""

    number: int
    value: OffsetCommitValue


class PendingOffsets:
    """Those of one shard, by producer id."""

    __slots__ = ("_by_producer", "_counts", "_number", "is_empty")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetCommitKey, Pending | None]] = {}
        self._counts: dict[str, dict[tuple[str, int], int]] = {}  # By group, how many producers hold each.
        self._number = 0
        self.is_empty = True
        """Whether no transaction is open."""

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """Keep the pending offset of a producer."""
        held = self._by_producer.setdefault(producer_id, {})
        self.is_empty = False
        if key not in held:
            counts = self._counts.setdefault(key.group, {})
            place = key.topic, key.partition
            counts[place] = counts.get(place, 0) + 1
        self._number += 1
        held[key] = Pending(self._number, value)

    def supersede(self, key: OffsetCommitKey, before: int | None = None) -> None:
        """Drop pending writes for it until now, or before a certain one."""
        for held in self._by_producer.values():
            pending = held.get(key)
            if pending is not None and (before is None or pending.number < before):
                held[key] = None

    def take(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Return the pending offsets of a producer's transaction, and forget the transaction."""
        held = self._by_producer.pop(producer_id, {})
        self.is_empty = not self._by_producer
        for key in held:
            self._count_down(key)
        if not is_commit:
            return []
        counting = [(key, pending) for key, pending in held.items() if pending is not None]
        for key, pending in counting:
            self.supersede(key, before=pending.number)
        return [(key, pending.value) for key, pending in counting]

    def _count_down(self, key: OffsetCommitKey) -> None:
        counts = self._counts[key.group]
        place = key.topic, key.partition
        counts[place] -= 1
        if not counts[place]:
            del counts[place]
        if not counts:
            del self._counts[key.group]

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended may change this offset."""
        counts = self._counts.get(group_id)
        return counts is not None and (topic, partition) in counts

    def places(self, group_id: str) -> Collection[tuple[str, int]]:
        """Return the partitions of which a transaction that has not ended may change the group's offset."""
        return self._counts.get(group_id, {}).keys()

    def held(self) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Return the pending offsets of open transactions, unordered for each partition."""
        return [
            (key, pending.value)
            for held in self._by_producer.values()
            for key, pending in held.items()
            if pending is not None
        ]

    def group_ids(self) -> Collection[str]:
        """Return the groups of which a transaction that has not ended may change any offset."""
        return self._counts.keys()

    def holds_any(self, group_id: str) -> bool:
        """Whether a transaction that has not ended may change any offset of the group."""
        return group_id in self._counts
