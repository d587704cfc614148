"""Offsets that stand still while one member after another is gone from their partition. Pure."""

from collections.abc import Iterable

from kohort.broker.explain.observed.events import Departure, OffsetMovedOn
from kohort.broker.explain.observed.patterns import POISON_DEPARTURES

Saved = list[tuple[str, int, int, int]]


class Standstills:
    """By partition: the offset at which its owner was gone, and how many owners in turn were gone at it.

    An offset of -1 stands for none.
    """

    def __init__(self, saved: Saved | None = None) -> None:
        self._stood = {each[:2]: each[2:] for each in saved or ()}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._stood)

    def note(self, gone: Iterable[Departure]) -> None:
        """Take it that these members are gone. One that had read everything says nothing."""
        for departure in gone:
            for each in departure.owned:
                if not each.is_read:
                    where = each.topic, each.partition
                    offset, members = self._stood.get(where, (each.offset, 0))
                    self._stood[where] = each.offset, members + 1 if offset == each.offset else 1

    def moved_on(self, where: tuple[str, int], offset: int, at_ms: int) -> OffsetMovedOn | None:
        """Take a committed offset; return the end of a standstill that was worth telling."""
        before, members = self._stood.get(where, (offset, 0))
        if offset <= before:
            return None
        del self._stood[where]
        if members < POISON_DEPARTURES:
            return None
        topic, partition = where
        return OffsetMovedOn(
            at_ms=at_ms, topic=topic, partition=partition, before=before, after=offset, departures=members
        )

    def forget(self, where: tuple[str, int]) -> None:
        """Take it that the partition has no committed offset any more."""
        self._stood.pop(where, None)

    def saved(self) -> Saved:
        """Return what is stored."""
        return [(*where, *stood) for where, stood in self._stood.items()]
