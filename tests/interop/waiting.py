"""Waiting for what another process or thread is about to bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.02
DEADLINE_S = 60.0  # Far above what a machine at a load of 30 takes.


def wait_until(condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> float:
    """Return how many seconds it took until the condition held. Raises: AssertionError if it never does."""
    began_s = time.monotonic()
    while not condition():
        passed_s = time.monotonic() - began_s
        assert passed_s < within_s, f"not within {within_s} s: {what}"
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - began_s
