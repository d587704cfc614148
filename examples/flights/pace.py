"""The work that a flight costs: without it a group would be through before anything could be killed."""

from __future__ import annotations

import time

from examples.flights import settings


class Pace:
    """Spreads a member's flights evenly over time."""

    def __init__(self, flights_per_second: float = settings.FLIGHTS_PER_SECOND) -> None:
        self._flights_per_second = flights_per_second
        self._free_at_s = 0.0

    def work_s(self, flights: int) -> float:
        """Return how many seconds from now the member is busy with these and all earlier flights."""
        now_s = time.monotonic()
        self._free_at_s = max(self._free_at_s, now_s) + flights / self._flights_per_second
        return self._free_at_s - now_s
