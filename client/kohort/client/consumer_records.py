"""What one poll returns: records, and what it takes to commit them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from kohort.client.values import ConsumerRecord, K_co, OffsetAndMetadata, TopicPartition, V_co


@dataclass(frozen=True, slots=True)
class Assignments:
    """How many assignments a consumer had seen at some moment, and with which each partition came.

    A topic that is made anew counts as another assignment of its partitions.
    """

    number: int = 0
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)

    def with_next(self, partitions: Iterable[TopicPartition]) -> "Assignments":
        """Return these and one more, with which these partitions came."""
        number = self.number + 1
        return Assignments(number, {**self.by_partition, **dict.fromkeys(partitions, number)})

    def has_come_since(self, partition: TopicPartition, number: int) -> bool:
        """Whether a partition came after that assignment: what was polled before belongs to another time."""
        return self.by_partition.get(partition, 0) > number


class PolledOffsets(dict[TopicPartition, OffsetAndMetadata]):
    """Offsets behind records that were polled; they are committed as `ConsumerRecords` are."""

    __slots__ = ("assignment_number",)

    def __init__(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], assignment_number: int) -> None:
        super().__init__(offsets)
        self.assignment_number = assignment_number

    def without(self, refused: Collection[tuple[str, int]]) -> "PolledOffsets":
        """Return the rest, which may be kept when these are refused; nothing if none of these is here."""
        rest = {each: offset for each, offset in self.items() if each not in refused}
        return PolledOffsets(rest if len(rest) < len(self) else {}, self.assignment_number)


class ConsumerRecords(
    list[ConsumerRecord[K_co, V_co]],  # pyright: ignore[reportInvalidTypeArguments]  # Nobody puts records in.
    Generic[K_co, V_co],
):
    """The records of one poll, those of a partition in their order.

    `consumer.commit(records)` commits the offsets behind them, and only if their partitions have been
    this consumer's without a break since: a partition that went and came back may have been read on by
    somebody else.
    """

    __slots__ = ("assignments",)

    def __init__(
        self,
        records: Iterable[ConsumerRecord[K_co, V_co]] = (),
        assignments: Assignments = Assignments(),  # It is frozen.
    ) -> None:
        super().__init__(records)
        self.assignments = assignments
        """What the consumer had seen when it polled them."""

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
        """Return the offset behind the last record of each partition: what there is to commit (KIP-1094)."""
        ends = {(each.topic, each.partition): each.offset + 1 for each in self}
        return {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in ends.items()}
