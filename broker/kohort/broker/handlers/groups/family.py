"""The parts of a broker that questions about groups are put to."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.metadata import MetadataStore

if TYPE_CHECKING:
    from kohort.broker.coordination.internal_topics import InternalTopics
    from kohort.broker.coordination.shares import Shares
    from kohort.broker.coordination.transaction_shards import TransactionShards


VARIANT_DIGITS = "89ab"


def random_uuid_text() -> str:
    """Return a random UUID as text, in a third of the time that `str(uuid.uuid4())` takes (RFC 9562, 5.4)."""
    random = os.urandom(16)
    digits = random.hex()
    variant = VARIANT_DIGITS[random[8] & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class GroupServices(msgspec.Struct, frozen=True):
    """The groups of this broker, and what their members refer to."""

    shards: GroupShards
    metadata: MetadataStore
    node_id: int
    counters: GroupCounters
    ensure_offsets_topic: Callable[[], Awaitable[object]]
    """Makes `__consumer_offsets` unless it is there. Raises: ApiError."""
    transactions: "Callable[[], TransactionShards] | None" = None
    """Makes them at first use; None before."""
    shares: "Callable[[], Shares] | None" = None
    """The parts for share groups, made at first use; None before."""
    internal_topics: "InternalTopics | None" = None
    """What makes the topics of streams groups; None where there are no such groups."""
    has_consumer_groups: bool = True
    """Whether consumer groups (KIP-848) are supported."""
    fresh_id: Callable[[], str] = random_uuid_text
    """Where the random part of member ids comes from."""
