"""What trackers have done to a partition, kept beside its committed offset, so that a count outlives them."""

import re
from typing import NamedTuple

_WORD = re.compile(r"(redelivered|dead|vanished)=(\d+)")


class TrackerCounters(NamedTuple):
    """How often records were delivered again, became dead letters, or were gone when they were due."""

    redelivered: int = 0
    dead: int = 0
    vanished: int = 0

    def encode(self) -> str:
        """Return what is committed with the offset: `redelivered=3 dead=1 vanished=0`."""
        return " ".join(f"{name}={value}" for name, value in self._asdict().items())

    def __add__(self, other: object) -> "TrackerCounters":
        """Return both together."""
        if not isinstance(other, TrackerCounters):
            return NotImplemented
        return TrackerCounters(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NONE = TrackerCounters()


def decode_counters(metadata: str) -> TrackerCounters:
    """Return what was committed with an offset; zeros where nothing of it is to be read."""
    return TrackerCounters(**{name: int(value) for name, value in _WORD.findall(metadata)})
