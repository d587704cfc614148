"""The group's rebalances as the broker tells them over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass

import msgspec

from examples.flights import settings

TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance: what began it, and how long the members stood still."""

    at_s: float
    generation: int
    cause: str
    waited_for: str
    took_ms: int

    def cells(self) -> tuple[str, ...]:
        """Return it as a row of text."""
        return (f"{self.at_s:.1f}", str(self.generation), self.cause, self.waited_for, f"{self.took_ms} ms")


class History:
    """Collects the broker's account; what a killed broker told before stays in it."""

    def __init__(self) -> None:
        self.rebalances: list[Rebalance] = []

    def sample(self, http: str) -> None:
        """Ask the broker again; a broker that does not answer changes nothing."""
        url = f"http://{http}/api/v1/groups/{settings.GROUP}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                msgspec.json.decode(answer.read())
        except (urllib.error.URLError, OSError, msgspec.DecodeError):
            return
