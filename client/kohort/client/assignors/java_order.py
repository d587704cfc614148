"""The order in which Java's hash tables are walked: where Kafka's assignors leave a choice to it, so do we.

Then a group whose leader changes from a Java client to this one, or back, sees nothing move.
Source: java.util.HashMap, String.hashCode, TopicPartition.hashCode.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")

SMALLEST_TABLE = 16
MASK = 0xFFFF_FFFF


def string_hash(text: str) -> int:
    """Return Java's hash code of a string, without a sign."""
    found = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        found = (31 * found + unit) & MASK
    return found


def partition_hash(partition: tuple[str, int]) -> int:
    """Return Java's hash code of a topic's partition, without a sign."""
    topic, number = partition
    return (31 * (31 + number) + string_hash(topic)) & MASK


def hash_order(
    items: Iterable[Item], hash_code: Callable[[Item], int], *, most: int | None = None
) -> list[Item]:
    """Return the items, given in the order of their coming, as a HashMap hands them out.

    `most` is the largest number of items so far, if more than now: a table does not shrink.
    """
    found = list(items)
    table = SMALLEST_TABLE
    while (len(found) if most is None else most) > table * 3 // 4:
        table *= 2

    def bucket(item: Item) -> int:
        code = hash_code(item)
        return (code ^ code >> 16) & (table - 1)

    return sorted(found, key=bucket)


def java_string_order(text: str) -> bytes:
    """Return the key by which Java sorts strings: by UTF-16 units, not by characters."""
    return text.encode("utf-16-be")
