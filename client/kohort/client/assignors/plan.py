"""What the sticky assignors come to."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.client.assignors.subscription import Partition


@dataclass(frozen=True, slots=True)
class Plan:
    """Who shall have which partitions.

    `leaving` are those that somebody has to give up first, where that was noted on the way.
    """

    holdings: Mapping[str, Collection[Partition]]
    leaving: frozenset[Partition] | None = None
