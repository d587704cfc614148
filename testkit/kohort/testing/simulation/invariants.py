"""What an application promises, as checks for the end of a simulated test. Each raises AssertionError."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

H = TypeVar("H", bound=Hashable)

SHOWN_MAX = 10


def at_least_once(placed: Iterable[H], handled: Iterable[H]) -> None:
    """Check that all that was placed was handled."""
    there = set(handled)
    missing = [each for each in placed if each not in there]
    assert not missing, f"{len(missing)} were never handled: {_some(missing)}"


def exactly_once(placed: Iterable[H], handled: Iterable[H]) -> None:
    """Check that all that was placed was handled, and nothing twice."""
    counts = Counter(handled)
    at_least_once(placed, counts)
    twice = [each for each, count in counts.items() if count > 1]
    assert not twice, f"{len(twice)} were handled more than once: {_some(twice)}"


def in_order(handled: Mapping[H, Iterable[int]]) -> None:
    """Check that the numbers of each key never go back. The same number again is a record shown once more."""
    for key, numbers in handled.items():
        newest: set[int] = set()
        largest = None
        for number in numbers:
            assert largest is None or number > largest or number in newest, (
                f"{key!r}: {number} was handled for the first time behind {largest}"
            )
            newest.add(number)
            largest = number if largest is None else max(largest, number)


def _some(found: list[H]) -> str:
    shown = ", ".join(map(str, found[:SHOWN_MAX]))
    return f"{shown}, ..." if len(found) > SHOWN_MAX else shown
