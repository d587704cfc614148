"""How often a test tries what is random: enough by day to notice a mistake soon, many times by night."""

import os

import pytest

NIGHTLY = "KOHORT_TEST_NIGHTLY"


def repetitions(by_day: int, *, by_night: int) -> int:
    """Return how many seeds or examples to try: `make nightly` sets the switch."""
    return by_night if os.environ.get(NIGHTLY) else by_day


only_by_night = pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"{NIGHTLY}=1 runs it")
"""Marks what takes many seconds, and is shown in small by another test of the day."""
