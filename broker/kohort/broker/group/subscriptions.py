"""What consumers and their leaders write into a group's opaque bytes, read once.

The members of a group usually send the same bytes, generation after generation. A limited number of
small ones is cached.
"""

from functools import lru_cache

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.protocol.errors import WireError

REMEMBERED_MAX = 1_024
REMEMBERED_BYTES_MAX = 512  # Each takes some three times as much once it is read: 1.5 MB in all.


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics that a consumer wants to read. Raises: WireError."""
    if len(metadata) <= REMEMBERED_BYTES_MAX:
        return _remembered_topics(metadata)
    return _topics(metadata)


def assigned_partitions(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """Return the partitions in a consumer's assignment; none where the bytes do not say."""
    if len(assignment) <= REMEMBERED_BYTES_MAX:
        return _remembered_partitions(assignment)
    return _partitions(assignment)


def _topics(metadata: bytes) -> frozenset[str]:
    return frozenset(ConsumerProtocolSubscription.decode_versioned(metadata).topics)


def _partitions(assignment: bytes) -> tuple[tuple[str, int], ...]:
    if not assignment:
        return ()
    try:
        decoded = ConsumerProtocolAssignment.decode_versioned(assignment)
    except WireError:
        return ()
    return tuple(
        (each.topic, partition) for each in decoded.assigned_partitions for partition in each.partitions
    )


_remembered_topics = lru_cache(REMEMBERED_MAX)(_topics)
_remembered_partitions = lru_cache(REMEMBERED_MAX)(_partitions)
