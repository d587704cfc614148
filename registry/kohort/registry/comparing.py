"""Comparing types that may contain themselves: each pair is looked at once, and the work is bounded."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kohort.registry.errors import InvalidSchema

Type = TypeVar("Type")
Problems = tuple[str, ...]
PROBLEMS_MAX = 20
"""More of one pair of types are not told."""
STEPS_MAX = 20_000


class Comparison(ABC, Generic[Type]):
    """One comparison of a reader's and a writer's type. A pair that is under way is taken for compatible."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Problems] = {}
        self._under_way: set[tuple[int, int]] = set()
        self._assumed: set[tuple[int, int]] = set()
        self._steps = 0

    def whole(self, reader: Type, writer: Type) -> Problems:
        """Return why a reader cannot read the data of a writer; nothing if it can. Raises: InvalidSchema."""
        try:
            return self.compare(reader, writer, "/")
        except RecursionError:
            raise InvalidSchema("it is nested too deeply to compare") from None

    def compare(self, reader: Type, writer: Type, path: str) -> Problems:
        """Return the problems of a pair of types within. Raises: InvalidSchema for what is too complex."""
        pair = self.identity(reader, writer)
        if pair in self._under_way:
            self._assumed.add(pair)
            return ()
        if (known := self._known.get(pair)) is not None:
            return known
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema("it is too complex to compare")
        self._under_way.add(pair)
        count = len(self._known)
        found = self.look(reader, writer, path)[:PROBLEMS_MAX]
        self._under_way.discard(pair)
        if found and pair in self._assumed:  # What was found by the assumption that it fits does not hold.
            for each in list(self._known)[count:]:
                if not self._known[each]:
                    del self._known[each]
        self._assumed.discard(pair)
        self._known[pair] = found
        return found

    def identity(self, reader: Type, writer: Type) -> tuple[int, int]:
        """Return what is the same for the same pair of types."""
        return id(reader), id(writer)

    @abstractmethod
    def look(self, reader: Type, writer: Type, path: str) -> Problems:
        """Return the problems of a pair, by `compare` for what is within."""


def problem(kind: str, path: str, words: str) -> str:
    """Return a problem as clients are told it."""
    return f"{{errorType:'{kind}', description:'{words}', path:'{path.rstrip('/') or '/'}'}}"
