"""Requests about many partitions, in parts: kohort's broker limits what one request may list.

Kafka has no such limit, and takes the parts as well. Broker's limits: docs/compatibility.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")
PARTITIONS_PER_REQUEST = 10_000
"""Each may be of another topic: together they are the 20,000 elements that every request may have."""


def parts_of(items: Iterable[Item], most: int = PARTITIONS_PER_REQUEST) -> Iterator[tuple[Item, ...]]:
    """Yield the items in tuples that fit into a request; nothing without items."""
    left = iter(items)
    while part := tuple(islice(left, most)):
        yield part


def parts_of_mapping(items: Mapping[Item, Value]) -> Iterator[dict[Item, Value]]:
    """Yield the mapping in parts that fit into a request; at least one, which may be empty."""
    if not items:
        yield {}
    for part in parts_of(items.items()):
        yield dict(part)
