"""The result of the sticky assignors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.client.assignors.subscription import Partition


@dataclass(frozen=True, slots=True)
class Plan:
    """The new owner of each partition.

    `leaving` are the partitions that another member has to revoke first, if that was recorded.
    """

    holdings: Mapping[str, Collection[Partition]]
    leaving: frozenset[Partition] | None = None
