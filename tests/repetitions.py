"""How often a test tries what is random: enough by day to notice a mistake soon, many times by night."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

NIGHTLY = "KOHORT_TEST_NIGHTLY"


def repetitions(by_day: int, *, by_night: int) -> int:
    """Return how many seeds or examples to try: `make nightly` sets the switch."""
    return by_night if os.environ.get(NIGHTLY) else by_day


def some_by_day(every: Iterable[str], *by_day: str) -> list[Any]:
    """Return all as parameters of a test, of which the others than `by_day` are for the night."""
    names = list(every)
    assert set(by_day) <= set(names), "a name by day that there is not"
    return [each if each in by_day else pytest.param(each, marks=only_by_night) for each in names]


only_by_night = pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"{NIGHTLY}=1 runs it")
"""Marks what takes many seconds, and is shown in small by another test of the day."""
