"""The records of one poll, and the offsets to commit them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from kohort.client.values import ConsumerRecord, K_co, OffsetAndMetadata, TopicPartition, V_co


@dataclass(frozen=True, slots=True)
class Assignments:
    """The number of assignments a consumer had seen at some moment, and the assignment of each partition.

    A recreated topic counts as a new assignment of its partitions.
    """

    number: int = 0
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)

    def with_next(self, partitions: Iterable[TopicPartition]) -> "Assignments":
        """Return these and one more, in which these partitions were assigned."""
        number = self.number + 1
        return Assignments(number, {**self.by_partition, **dict.fromkeys(partitions, number)})

    def has_come_since(self, partition: TopicPartition, number: int) -> bool:
        """Whether a partition was assigned after that assignment: earlier records do not belong to it."""
        return self.by_partition.get(partition, 0) > number


class PolledOffsets(dict[TopicPartition, OffsetAndMetadata]):
    """Offsets after polled records; they are committed like `ConsumerRecords`."""

    __slots__ = ("assignment_number",)

    def __init__(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], assignment_number: int) -> None:
        super().__init__(offsets)
        self.assignment_number = assignment_number

    def without(self, refused: Collection[tuple[str, int]]) -> "PolledOffsets":
        """Return the rest, which may be accepted if these are refused; nothing if none of these is here."""
        rest = {each: offset for each, offset in self.items() if each not in refused}
        return PolledOffsets(rest if len(rest) < len(self) else {}, self.assignment_number)


class ConsumerRecords(
    # Nobody puts records in.
    list[ConsumerRecord[K_co, V_co]],  # pyright: ignore[reportInvalidTypeArguments]
    Generic[K_co, V_co],
):
    """The records of one poll, those of a partition in their order.

    `consumer.commit(records)` commits the offsets after them, and only if their partitions have stayed
    assigned to this consumer: a partition that was revoked and assigned again may have been read by
    another member.
    """

    __slots__ = ("assignments",)

    def __init__(
        self,
        records: Iterable[ConsumerRecord[K_co, V_co]] = (),
        assignments: Assignments = Assignments(),  # It is frozen.
    ) -> None:
        super().__init__(records)
        self.assignments = assignments
        """The assignments that the consumer had seen when it polled them."""

    @property
    def assignment_number(self) -> int:
        """How many assignments the consumer had seen when it polled them."""
        return self.assignments.number

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that these records are of, in their order."""
        return tuple(dict.fromkeys(TopicPartition(each.topic, each.partition) for each in self))

    def of(self, partition: TopicPartition) -> list[ConsumerRecord[K_co, V_co]]:
        """Return the records of one partition."""
        topic, number = partition
        return [each for each in self if each.partition == number and each.topic == topic]

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset after the last record of each partition: the offsets to commit (KIP-1094)."""
        ends = {(each.topic, each.partition): each.offset + 1 for each in self}
        return {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in ends.items()}
