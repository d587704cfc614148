"""One partition of one fetch: the reader's offset, and the values of the last answer."""

from typing import TYPE_CHECKING
from uuid import UUID

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition

if TYPE_CHECKING:
    from kohort.broker.partitions.partition import Partition
    from kohort.broker.partitions.table import PartitionTable

TargetKey = tuple[str | bytes, int]
"""The topic as the request names it (its name before version 13, the bytes of its id since), and the index.

Readers name ids that no topic has: the hash of bytes has a secret in it, that of a `UUID` anybody can choose.
"""


class FetchTarget:
    """A fetched partition. One in a session exists as long as the session has it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_sent_again",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "missing",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.partition: Partition | None = None
        self.missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Why there is no partition.
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        """Apply the reader's current offset and limits."""
        self.is_sent_again = True
        """Whether it was not checked since the reader's last request for it."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def resolve(self, table: "PartitionTable", by_id: bool) -> "Partition | None":
        """Return the partition, looked up again if it was unknown or has been deleted since."""
        partition = self.partition
        if partition is not None and not partition.deleted:
            return partition
        partition = table.get_by_id(self.topic_id, self.index) if by_id else table.get(self.topic, self.index)
        if partition is None:
            self.missing = table.why_missing(self.topic_id if by_id else self.topic, self.index)
        self.partition = partition
        return partition
