"""Ids that were made to have one hash are refused before anybody makes a key of them.

The hash of a `UUID` is its number modulo 2^61 - 1, which whoever makes ids up can choose: a dictionary of
12,000 such keys compares each with all others, 18 s long. Ids that are drawn by lot never have the same hash.
Numbers of 64 bits need no such look: no more than eight of them have one hash. Nor do texts, whose hash has a
secret in it.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kohort.protocol.errors import WireError

IDS_FEW = 16
"""So many ids in one request are not looked at: that would cost more than they could."""
SAME_HASH_MAX = 8


def check_ids(message: Any) -> None:
    """Return if the ids in the message have hashes of their own. Raises: WireError."""
    if have_one_hash(_ids_in(message)):
        raise WireError("topic ids that were made to have the same hash")


def have_one_hash(ids: Iterable[UUID]) -> bool:
    """Return whether more than a few different ids share their hashes."""
    kept = [each for each in ids if each.int]  # Where topics are named, all ids are zero.
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
