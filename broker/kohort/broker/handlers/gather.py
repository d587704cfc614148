"""Several questions to the core, one answer to the client: parts in the order in which they were asked."""

from collections.abc import Callable
from functools import partial
from typing import Any

from kohort.protocol.schema import Message


class Gather:
    """Calls `finish` with all parts once each has come. Loop's thread only."""

    def __init__(self, count: int, finish: Callable[[tuple[Any, ...]], None]) -> None:
        assert count > 0
        self._parts: list[Any] = [None] * count
        self._missing = count
        self._finish = finish

    def place(self, position: int) -> Callable[[Message], None]:
        """Return where the part at `position` is to be put."""
        return partial(self.put, position)

    def put(self, position: int, part: Message) -> None:
        """Take one part; with the last one, finish."""
        assert self._parts[position] is None, position
        self._parts[position] = part
        self._missing -= 1
        if not self._missing:
            self._finish(tuple(self._parts))
