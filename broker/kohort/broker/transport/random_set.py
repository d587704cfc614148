"""A set with random samples in constant time."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from kohort.broker.runtime.unpredictable import randbelow

ItemT = TypeVar("ItemT")


class RandomSet(Generic[ItemT]):
    """A set of items that can return random ones."""

    __slots__ = ("_indexes", "_items")

    def __init__(self) -> None:
        self._items: list[ItemT] = []
        self._indexes: dict[ItemT, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._indexes

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    def add(self, item: ItemT) -> None:
        """Add an item that is not in the set."""
        assert item not in self._indexes
        self._indexes[item] = len(self._items)
        self._items.append(item)

    def discard(self, item: ItemT) -> bool:
        """Remove an item. Return whether it was in the set."""
        index = self._indexes.pop(item, None)
        if index is None:
            return False
        last = self._items.pop()
        if index < len(self._items):
            self._items[index] = last
            self._indexes[last] = index
        return True

    def sample(self, count: int) -> list[ItemT]:
        """Return `count` random items, with repetitions; none if the set is empty."""
        return [self._items[randbelow(len(self._items))] for _ in range(count)] if self._items else []
