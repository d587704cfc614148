"""One partition of one fetch: what the reader asked for, and what it has been told."""

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
    """A partition that is fetched. One inside a session lives as long as the session remembers it."""

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
        """Take over where the reader stands now and how much it takes."""
        self.is_sent_again = True
        """Whether nobody has looked since the reader has last said so."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def resolve(self, table: "PartitionTable", by_id: bool) -> "Partition | None":
        """Return the partition, looked up anew where it was unknown or has been deleted since."""
        partition = self.partition
        if partition is not None and not partition.deleted:
            return partition
        partition = table.get_by_id(self.topic_id, self.index) if by_id else table.get(self.topic, self.index)
        if partition is None:
            self.missing = table.why_missing(self.topic_id if by_id else self.topic, self.index)
        self.partition = partition
        return partition
