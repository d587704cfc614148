"""The moves of a sticky assignor so far, so that no two partitions are swapped without need.

Source: AbstractStickyAssignor.PartitionMovements.
"""

from dataclasses import dataclass, field

from kohort.client.assignors.java_order import hash_order, partition_hash
from kohort.client.assignors.subscription import Partition


@dataclass(slots=True)
class _Moved:
    """Partitions of one topic that went the same way, and how many they have been at most."""

    partitions: dict[Partition, None] = field(default_factory=dict)
    most: int = 0


class Moves:
    """From which member to which each partition has moved, over all steps."""

    def __init__(self) -> None:
        self._way: dict[Partition, tuple[int, int]] = {}
        self._moved: dict[tuple[str, int, int], _Moved] = {}

    def instead_of(self, partition: Partition, giver: int, taker: int) -> Partition:
        """Return the partition to move: preferably one of the topic that moved in the opposite direction."""
        origin = self._way.get(partition, (giver, giver))[0]
        opposite = self._moved.get((partition[0], taker, origin))
        if opposite is None:
            return partition
        return hash_order(opposite.partitions, partition_hash, most=opposite.most)[0]

    def note(self, partition: Partition, giver: int, taker: int) -> None:
        """Record a move; a partition that returns to its first owner has not moved."""
        topic = partition[0]
        before = self._way.pop(partition, None)
        if before is not None:
            giver = before[0]
            moved = self._moved[topic, *before]
            del moved.partitions[partition]
            if not moved.partitions:
                del self._moved[topic, *before]
            if giver == taker:
                return
        self._way[partition] = (giver, taker)
        moved = self._moved.setdefault((topic, giver, taker), _Moved())
        moved.partitions[partition] = None
        moved.most = max(moved.most, len(moved.partitions))
