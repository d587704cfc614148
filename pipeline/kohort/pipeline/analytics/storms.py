"""Rebalance storms: a group rebalances again before it is stable. Pure.

A rebalance belongs to the storm of the previous one if it began less than `QUIET_MS` after that one ended.
A group of many members starts with a few rebalances in a row; `REBALANCES_LEAST` of them are a storm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

QUIET_MS = 60_000
REBALANCES_LEAST = 4


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The data for storms: when a rebalance began, how long the group was stopped, and which member began
    it."""

    started_ms: int
    still_ms: int
    cause: str
    client_id: str = ""

    @property
    def ended_ms(self) -> int:
        """When the group continued."""
        return self.started_ms + self.still_ms


@dataclass(frozen=True, slots=True)
class Storm:
    """Rebalances that followed each other too soon; `causes` and `clients` have the most frequent first."""

    started_ms: int
    ended_ms: int
    rebalances: int
    still_ms: int
    causes: dict[str, int]
    clients: dict[str, int]

    @property
    def still_share(self) -> float:
        """The share of time in which the group was stopped, from 0 to 1."""
        return self.still_ms / max(self.ended_ms - self.started_ms, 1)


def find_storms(
    rebalances: Iterable[Rebalance], quiet_ms: int = QUIET_MS, least: int = REBALANCES_LEAST
) -> list[Storm]:
    """Return one group's storms in the order of time."""
    found: list[list[Rebalance]] = []
    for each in sorted(rebalances, key=lambda rebalance: rebalance.started_ms):
        if found and each.started_ms - found[-1][-1].ended_ms < quiet_ms:
            found[-1].append(each)
        else:
            found.append([each])
    return [_storm(each) for each in found if len(each) >= least]


def _storm(rebalances: Sequence[Rebalance]) -> Storm:
    return Storm(
        started_ms=rebalances[0].started_ms,
        ended_ms=max(each.ended_ms for each in rebalances),
        rebalances=len(rebalances),
        still_ms=sum(each.still_ms for each in rebalances),
        causes=dict(Counter(each.cause for each in rebalances).most_common()),
        clients=dict(Counter(each.client_id for each in rebalances if each.client_id).most_common()),
    )
