"""The values that a share consumer returns and accepts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic

from kohort.client.errors import KohortError
from kohort.client.values import ConsumerRecord, K_co, TopicPartition, V_co


class AcknowledgeType(IntEnum):
    """What became of a record (Kafka: AcknowledgeType)."""

    ACCEPT = 1
    """It is done, and will not be delivered again."""
    RELEASE = 2
    """It is redelivered, to any member, up to the delivery limit of the group."""
    REJECT = 3
    """It can't be done, and will not be delivered again."""
    RENEW = 4
    """It needs more time: the record stays acquired, and its lock is renewed (KIP-1222)."""


class ShareRecord(ConsumerRecord[K_co, V_co], Generic[K_co, V_co], frozen=True, gc=False):
    """A record that is this consumer's until it is acknowledged, or its lock runs out."""

    delivery_count: int = 1
    """How often it has been handed out, this time included, to any member."""


AnyShareRecord = ShareRecord[Any, Any]


def shared(record: ConsumerRecord[Any, Any], delivery_count: int) -> AnyShareRecord:
    """Return the record with how often it has been handed out."""
    return ShareRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        record.headers,
        record.leader_epoch,
        record.timestamp_type,
        delivery_count,
    )


Offsets = Mapping[TopicPartition, Sequence[int]]
AcknowledgementCallback = Callable[[Offsets, KohortError | None], Awaitable[None] | None]
"""Called with the acknowledged records, or with the error."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of acknowledgements: of one successful answer, or of one failed partition."""

    offsets: Offsets
    error: KohortError | None
