"""What one poll returns: records, and what it takes to commit them."""

from collections.abc import Iterable
from typing import Generic

from kohort.client.values import ConsumerRecord, K_co, OffsetAndMetadata, TopicPartition, V_co


class ConsumerRecords(
    list[ConsumerRecord[K_co, V_co]],  # pyright: ignore[reportInvalidTypeArguments]  # Nobody puts records in.
    Generic[K_co, V_co],
):
    """The records of one poll, those of a partition in their order.

    `consumer.commit(records)` commits the offsets behind them, and only if their partitions have been
    this consumer's without a break since: a partition that went and came back may have been read on by
    somebody else.
    """

    __slots__ = ("assignment_number",)

    def __init__(
        self, records: Iterable[ConsumerRecord[K_co, V_co]] = (), assignment_number: int = 0
    ) -> None:
        super().__init__(records)
        self.assignment_number = assignment_number
        """How many assignments the consumer had seen when it polled them."""

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
