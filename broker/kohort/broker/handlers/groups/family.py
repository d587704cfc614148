"""The parts of a broker that questions about groups are put to."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import msgspec

from kohort.broker.coordination.coordinators import Coordinators
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.metadata import MetadataStore

if TYPE_CHECKING:
    from kohort.broker.coordination.internal_topics import InternalTopics
    from kohort.broker.coordination.shares import Shares
    from kohort.broker.coordination.transaction_coordinators import TransactionCoordinators


class Groups(msgspec.Struct, frozen=True):
    """The groups of this broker, and what their members refer to."""

    coordinators: Coordinators
    metadata: MetadataStore
    node_id: int
    counters: GroupCounters
    ensure_offsets_topic: Callable[[], Awaitable[object]]
    """Makes `__consumer_offsets` unless it is there. Raises: ApiError."""
    transactions: "Callable[[], TransactionCoordinators] | None" = None
    """What makes them at first use; None where nobody asks for any."""
    shares: "Callable[[], Shares] | None" = None
    """What share groups take, made at first use; None where nobody asks for any."""
    internal_topics: "InternalTopics | None" = None
    """What makes the topics of streams groups; None where there are no such groups."""
    has_consumer_groups: bool = True
    """Whether members of consumer groups (KIP-848) are heard."""
    fresh_id: Callable[[], UUID] = uuid4
    """Where the random part of member ids comes from."""
