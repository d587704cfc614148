"""What the client takes and returns: plain, frozen values."""

from typing import NamedTuple
from uuid import UUID

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written; the offset is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """A committed offset: the next record to read, and what was noted with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(msgspec.Struct, frozen=True, gc=False):
    """A consumer's place in its group, as a transaction commits offsets for it."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(msgspec.Struct, frozen=True, gc=False):
    """The offset that a lookup by time found, and the time of its record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class Node(msgspec.Struct, frozen=True, gc=False):
    """A broker and where it says it can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionInfo(msgspec.Struct, frozen=True, gc=False):
    """One partition as the metadata has it; the leader is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic with its partitions in their order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
