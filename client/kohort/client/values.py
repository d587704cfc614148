"""The values that the client takes and returns: plain and frozen."""

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K_co = TypeVar("K_co", covariant=True, default=bytes)
    V_co = TypeVar("V_co", covariant=True, default=bytes)
else:  # Before Python 3.13 defaults are for type checkers alone.
    from typing import TypeVar

    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)

Headers = tuple[tuple[str, bytes | None], ...]


class TimestampType(IntEnum):
    """The type of a record's timestamp: the producer's, or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ConsumerRecord(msgspec.Struct, Generic[K_co, V_co], frozen=True, gc=False):
    """One read record: key and value are bytes, or the results of deserializers.

    `leader_epoch` is that of the broker that wrote it, -1 for none: a seek takes it.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K_co | None
    value: V_co | None
    headers: Headers = ()
    leader_epoch: int = -1
    timestamp_type: TimestampType = TimestampType.CREATE_TIME

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with this name; None also if there is none."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    def _asdict(self) -> dict[str, object]:
        """Return its fields by name, as a named tuple does."""
        return msgspec.structs.asdict(self)


AnyRecord = ConsumerRecord[Any, Any]
"""For code that passes records on: the types of deserializers are known where a user has a consumer."""


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written; the offset is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """A committed offset: the next record to read, and its metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(msgspec.Struct, frozen=True, gc=False):
    """A consumer's place in its group, as a transaction commits offsets for it."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    caveat: str = ""
    """The problem of this consumer's offsets in a transaction; the producer warns about it."""


class OffsetAndTimestamp(msgspec.Struct, frozen=True, gc=False):
    """The offset that a lookup by time found, and the time of its record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class Node(msgspec.Struct, frozen=True, gc=False):
    """A broker and its advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionInfo(msgspec.Struct, frozen=True, gc=False):
    """One partition in the metadata; the leader is -1 if there is none."""

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
