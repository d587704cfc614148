"""How often a test tries what is random: enough by day to notice a mistake soon, many times by night."""

import os

NIGHTLY = "KOHORT_TEST_NIGHTLY"


def repetitions(by_day: int, *, by_night: int) -> int:
    """Return how many seeds or examples to try: `make nightly` sets the switch."""
    return by_night if os.environ.get(NIGHTLY) else by_day
