"""Who owned which partition when, by what the members' rebalance listeners were told.

A listener is told of a revocation before the broker hears that it is done, and of an assignment after the
broker has made it. So where nobody is given what somebody else still has, the spans of two owners never
meet, however slow a client is: all of them read one clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from tests.interop.clients import Changes, Place

EVER_S = float("inf")


class Span(NamedTuple):
    """How long a member owned a partition."""

    begins_s: float
    ends_s: float
    name: str


def spans(name: str, changes: Changes, left_s: float = EVER_S) -> Iterable[tuple[Place, Span]]:
    """Yield what a member owned, until it was told otherwise or left."""
    open_ones: dict[Place, float] = {}
    for told in tuple(changes.told):
        for place in told.places:
            if told.is_assigned:
                open_ones.setdefault(place, told.at_s)
            elif place in open_ones:
                yield place, Span(open_ones.pop(place), told.at_s, name)
    for place, begins_s in open_ones.items():
        yield place, Span(begins_s, left_s, name)


def owners(everyone: Iterable[tuple[str, Changes, float]]) -> dict[Place, list[Span]]:
    """Return each partition's owners one after another, of members with their names and when they left."""
    found: dict[Place, list[Span]] = {}
    for name, changes, left_s in everyone:
        for place, span in spans(name, changes, left_s):
            found.setdefault(place, []).append(span)
    return {place: sorted(each) for place, each in found.items()}


def owned_twice(owned: dict[Place, list[Span]]) -> list[str]:
    """Return where two members had a partition at once."""
    return [
        f"{place}: {one.name} had it for {one.ends_s - other.begins_s:.3f} s more when {other.name} had it"
        for place, each in owned.items()
        for one, other in itertools.pairwise(each)
        if other.begins_s < one.ends_s
    ]


def longest_gap_s(owned: dict[Place, list[Span]]) -> float:
    """Return for how long a partition was nobody's between two owners at most."""
    gaps = (other.begins_s - one.ends_s for each in owned.values() for one, other in itertools.pairwise(each))
    return max(gaps, default=0.0)
