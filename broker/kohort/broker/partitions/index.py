"""The partitions of this broker, found by topic and index."""

from collections.abc import Iterator
from uuid import UUID

from kohort.broker.partitions.partition import Partition

Partitions = list[Partition | None]
"""The partitions of a topic by index; None for one that is only on other brokers."""


class PartitionIndex:
    """The partitions by topic name, by topic id, and in a row. All methods belong to the loop's thread."""

    def __init__(self) -> None:
        self._by_name: dict[str, Partitions] = {}
        self._by_id: dict[UUID, Partitions] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, its log open unless it is offline, or None where this broker has none."""
        return _at(self._by_name.get(topic), index)

    def peek(self, topic: str | UUID, index: int) -> Partition | None:
        """Return the partition, whether open or not, or None where this broker has none."""
        known = self._by_name.get(topic) if isinstance(topic, str) else self._by_id.get(topic)
        return _peek(known, index)

    def get_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        """Return the partition of the topic with this id, as `get` does."""
        return _at(self._by_id.get(topic_id), index)

    def topic_list(self, topic: str, topic_id: UUID) -> Partitions:
        """Return the list of a topic's partitions, which the caller changes in place."""
        partitions = self._by_name.setdefault(topic, [])
        self._by_id[topic_id] = partitions
        return partitions

    def remove_topic(self, topic: str, topic_id: UUID) -> Partitions:
        """Remove a topic, and return its partitions."""
        self._by_id.pop(topic_id, None)
        return self._by_name.pop(topic, [])

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over all partitions, whether open or not."""
        for partitions in tuple(self._by_name.values()):
            yield from (each for each in partitions if each is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _peek(partitions: Partitions | None, index: int) -> Partition | None:
    """Return the partition, open or not."""
    if partitions is None or not 0 <= index < len(partitions):
        return None
    return partitions[index]


def _at(partitions: Partitions | None, index: int) -> Partition | None:
    """Return the partition, opened if it was not."""
    if partitions is None or not 0 <= index < len(partitions):
        return None
    partition = partitions[index]
    if partition is not None and not partition.opened:
        partition.open()
    return partition
