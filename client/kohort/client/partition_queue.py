"""The batches of one partition that wait to be sent, and the partitions of a topic."""

from collections import deque

from kohort.client.batch import Batch
from kohort.client.errors import KohortError
from kohort.client.sequences import PartitionSequences
from kohort.client.values import TopicPartition
from kohort.protocol.schema import ZERO_UUID


class PartitionQueue:
    """The batches of one partition that wait to be sent; the last one may still accept records."""

    __slots__ = (
        "batches",
        "failures",
        "in_flight",
        "largest_bytes",
        "last_error",
        "not_before_ms",
        "open",
        "partition",
        "sequences",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, largest_bytes: int) -> None:
        self.partition = partition
        # The topic id of its sequences, even if the metadata has another one by now.
        self.topic_id = ZERO_UUID
        self.largest_bytes = largest_bytes  # The size limit of a batch.
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.in_flight: list[Batch] = []
        self.sequences = PartitionSequences()
        self.not_before_ms = 0
        self.failures = 0
        self.last_error: KohortError | None = None  # Why nothing was written lately.

    @property
    def waiting_bytes(self) -> int:
        """How much waits to be sent."""
        return sum([each.size_bytes for each in self.batches])


class TopicQueues:
    """A topic's partitions, and the current one for records without a key."""

    __slots__ = ("partitions", "sticky", "sticky_batch", "sticky_bytes", "topic_id", "vanished")

    def __init__(self) -> None:
        self.topic_id = ZERO_UUID
        self.partitions: list[PartitionQueue] = []
        # Former partitions of the topic: they may be created again.
        self.vanished: dict[int, PartitionQueue] = {}
        self.sticky: PartitionQueue | None = None
        self.sticky_batch: Batch | None = None
        self.sticky_bytes = 0

    def resize(self, topic: str, partition_count: int, largest_bytes: int) -> None:
        """Set the number of partitions; a restored one continues its sequences."""
        for number in range(len(self.partitions), partition_count):
            known = self.vanished.pop(number, None)
            self.partitions.append(known or PartitionQueue(TopicPartition(topic, number), largest_bytes))
        for queue in self.partitions[partition_count:]:
            self.vanished[queue.partition.partition] = queue
            queue.open = None
        if self.sticky is not None and self.sticky.partition.partition >= partition_count:
            self.sticky = self.sticky_batch = None
        del self.partitions[partition_count:]
        for queue in (*self.partitions, *self.vanished.values()):
            queue.topic_id = self.topic_id

    def have_new_logs(self) -> None:
        """Take note that the topic is another one of that name by now."""
        for queue in (*self.partitions, *self.vanished.values()):
            queue.sequences.has_new_log = True
