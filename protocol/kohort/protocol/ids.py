"""Refuses requests with many ids of the same hash, before they become keys of a dictionary.

The hash of a `UUID` is its number modulo 2^61 - 1, so an attacker can choose ids with equal hashes: a
dictionary of 12,000 such keys takes 18 s. Random ids never have equal hashes. Integers of 64 bits need no
check: at most eight of them share a hash. Strings need none: their hash is salted with a secret.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kohort.protocol.errors import WireError

UNCHECKED_IDS_MAX = 16
"""Requests with at most this many ids are not checked: the check would cost more than the collisions."""
SAME_HASH_MAX = 8


def check_ids(message: Any) -> None:
    """Check that few ids in the message share their hashes. Raises: WireError."""
    if share_hashes(_ids_in(message)):
        raise WireError("too many topic ids have the same hash")


def share_hashes(ids: Iterable[UUID]) -> bool:
    """Return whether more than `SAME_HASH_MAX` different ids share their hashes."""
    kept = [each for each in ids if each.int]  # In requests with topic names all ids are zero.
    hashes = set(map(hash, kept))
    if len(hashes) == len(kept):
        return False
    return len({each.bytes for each in kept}) - len(hashes) > SAME_HASH_MAX


def _ids_in(value: Any) -> Iterator[UUID]:
    if isinstance(value, UUID):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _ids_in(each)
    elif hasattr(value, "declaration"):
        for field in value.declaration().fields:
            if field.wire.name in {"uuid", "array", "struct"}:
                yield from _ids_in(getattr(value, field.name))
