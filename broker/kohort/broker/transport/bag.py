"""A set of which one can take any at random, at the cost of a look."""

from collections.abc import Iterator
from secrets import randbelow
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Bag(Generic[ItemT]):
    """Items, each once, in no order."""

    __slots__ = ("_items", "_places")

    def __init__(self) -> None:
        self._items: list[ItemT] = []
        self._places: dict[ItemT, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._places

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    def add(self, item: ItemT) -> None:
        """Put in one that is not in."""
        assert item not in self._places
        self._places[item] = len(self._items)
        self._items.append(item)

    def discard(self, item: ItemT) -> bool:
        """Take one out; return whether it was in."""
        place = self._places.pop(item, None)
        if place is None:
            return False
        last = self._items.pop()
        if place < len(self._items):
            self._items[place] = last
            self._places[last] = place
        return True

    def sample(self, count: int) -> list[ItemT]:
        """Return so many at random, the same one perhaps more than once; none where the bag is empty."""
        return [self._items[randbelow(len(self._items))] for _ in range(count)] if self._items else []
