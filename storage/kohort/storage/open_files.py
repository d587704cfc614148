"""How many segments may have open files at once: a broker has more segments than a process has descriptors.

A closed file is opened when it is needed. The file to close instead is chosen by second chance:
files used since the last check are skipped once. A file that somebody holds stays open.
"""

from threading import Lock
from typing import Protocol

SEGMENTS_MAX = 200
FILES_PER_SEGMENT = 3  # Log, offset index, time index.


class Openable(Protocol):
    """A segment, as seen from here."""

    was_used: bool

    def let_go(self) -> None:
        """Close the files for now. May block, where something is still to be synced."""
        ...


class OpenSegments:
    """The segments with open files, in the order in which they will be checked. Any thread."""

    def __init__(self, segments_max: int = SEGMENTS_MAX) -> None:
        self.segments_max = max(1, segments_max)
        self._open: dict[Openable, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Openable) -> None:
        """Note that the segment has opened its files; others may be closed in exchange."""
        with self._lock:
            self._open[segment] = None
            surplus = self._take_surplus()
        for each in surplus:
            each.let_go()

    def _take_surplus(self) -> list[Openable]:
        surplus: list[Openable] = []
        chances = len(self._open)
        while len(self._open) > self.segments_max:
            segment = next(iter(self._open))
            del self._open[segment]
            if segment.was_used and chances > 0:
                segment.was_used = False
                self._open[segment] = None
                chances -= 1
            else:
                surplus.append(segment)
        return surplus

    def closed(self, segment: Openable) -> None:
        """Note that the segment has no open file any more."""
        with self._lock:
            self._open.pop(segment, None)
