"""Records whose partition has vanished are placed again: their topic was recreated with fewer partitions.

Kafka's own producer lets such records wait until delivery_timeout_ms, and gives them up. Here they go to the
partition that a record sent now would go to, if it is certain that they are not written. A batch with an
unanswered attempt may be written: another partition would have its records a second time.
"""

import logging
from collections.abc import Callable

from kohort.client.accumulator import Accumulator
from kohort.client.batch import Batch
from kohort.client.errors import BrokerError, KohortError
from kohort.client.partition_queue import PartitionQueue
from kohort.client.partitioner import Partitioner, partition_for_key
from kohort.client.produce_messages import QueuedBatch
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record

logger = logging.getLogger(__name__)


class Relocation:
    """Places what waits for partitions that are gone. In the sender's thread."""

    def __init__(
        self,
        accumulator: Accumulator,
        partitioner: Partitioner | None,
        give_up: Callable[[QueuedBatch, KohortError], None],
        drop: Callable[[QueuedBatch], None],
    ) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._give_up = give_up
        self._drop = drop

    def run(self) -> frozenset[str]:
        """Place all batches without open answers; return the topics of the others.

        Records appended to these since then wait: they would overtake batches that may be placed again.
        """
        awaited: set[str] = set()
        for queue in self._accumulator.vanished():
            if queue.in_flight:
                awaited.add(queue.partition.topic)
            else:
                self._empty(queue)
        return frozenset(awaited)

    def _empty(self, queue: PartitionQueue) -> None:
        placed: list[Batch] = []
        for batch in self._accumulator.withdraw(queue):
            if batch.may_be_written:
                self._give_up(QueuedBatch(queue, batch), _gone(queue, "The batch may be written"))
            elif batch.record_count:
                placed += self._moved(queue, batch, placed)
            else:  # An exception kept its first record out.
                self._drop(QueuedBatch(queue, batch))

    def _moved(self, queue: PartitionQueue, batch: Batch, placed: list[Batch]) -> list[Batch]:
        """Place a batch's records in their current partitions; return the new batches."""
        # Its sequence numbers are used up: if the partition is restored, it has a gap.
        if batch.has_sequence:
            queue.sequences.forget(batch)
            queue.sequences.is_unresolved = True
        if len(batch.pinned) == batch.record_count:
            self._give_up(QueuedBatch(queue, batch), _gone(queue, "It was named for the record"))
            return []
        parts = batch.move(_Choice(self._accumulator, self._partitioner, queue, batch))
        logger.debug("%s is gone: %d record(s) are placed again", queue.partition, batch.record_count)
        moved = []
        for part in parts:
            if part.partition == queue.partition:
                self._give_up(
                    QueuedBatch(queue, part), _gone(queue, "No other could be chosen for the record")
                )
            else:
                self._accumulator.place(part, behind=placed)
                moved.append(part)
        return moved


class _Choice:
    """Decides the partition of each record of a batch; records that must not move keep the removed one."""

    def __init__(
        self,
        accumulator: Accumulator,
        partitioner: Partitioner | None,
        queue: PartitionQueue,
        batch: Batch,
    ) -> None:
        self._topic = queue.partition.topic
        self._gone = queue.partition
        self._partitioner = partitioner
        self._pinned = frozenset(batch.pinned)
        self._partition_count = accumulator.partition_count(self._topic)
        self._least_busy = accumulator.least_busy(self._topic)

    def __call__(self, index: int, record: Record) -> TopicPartition:
        """Return the partition for a batch's record, of its number."""
        if index in self._pinned:
            return self._gone
        if self._partitioner is not None:
            return self._by_partitioner(self._partitioner, record)
        if record.key is None:
            return self._least_busy
        return TopicPartition(self._topic, partition_for_key(record.key, self._partition_count))

    def _by_partitioner(self, partitioner: Partitioner, record: Record) -> TopicPartition:
        try:
            chosen = partitioner(self._topic, record.key, record.value, self._partition_count)
        except Exception:  # It is the user's own, and the other records must not suffer from it.
            logger.exception("the partitioner failed for a record of %s, which is gone", self._gone)
            return self._gone
        if 0 <= chosen < self._partition_count:
            return TopicPartition(self._topic, chosen)
        return self._gone


def _gone(queue: PartitionQueue, why: str) -> BrokerError:
    topic = queue.partition.topic
    return BrokerError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"partition {queue.partition} is gone: topic {topic!r} was made anew with fewer partitions. {why}, so"
        " it is not sent to another one",
    )
