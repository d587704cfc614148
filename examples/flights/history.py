"""The group's rebalances as the broker tells them over HTTP."""

from __future__ import annotations

import urllib.request

import msgspec

from examples.flights import settings

TIMEOUT_S = 2.0


class Cause(msgspec.Struct, frozen=True):
    """What began a rebalance, and who; `reason` in the client's own words."""

    kind: str
    client_id: str = ""
    reason: str = ""


class Waited(msgspec.Struct, frozen=True):
    """Whom the group waited for; `joined` is false for whom it waited in vain."""

    client_id: str
    waited_ms: int
    joined: bool


class Rebalance(msgspec.Struct, frozen=True):
    """One rebalance as the broker reports it: times since 1970 and durations, in milliseconds."""

    generation_id: int
    outcome: str
    cause: Cause
    started_ms: int
    still_ms: int
    members: int
    waited_for: tuple[Waited, ...] = ()
    moves: tuple[object, ...] = ()

    def cells(self, began_at_s: float) -> tuple[str, ...]:
        """Return it as a row of text."""
        slowest = self.waited_for[0] if self.waited_for else None
        waited = "" if slowest is None else f"{slowest.client_id}, {slowest.waited_ms} ms"
        if slowest is not None and not slowest.joined:
            waited += ", in vain"
        return (
            f"{self.started_ms / 1000 - began_at_s:.1f}",
            str(self.generation_id),
            f"{self.cause.kind}: {self.cause.client_id}" if self.cause.client_id else self.cause.kind,
            str(self.members),
            str(len(self.moves)),
            waited,
            f"{self.still_ms} ms",
        )


class _Group(msgspec.Struct):
    history: tuple[Rebalance, ...] = ()


class History:
    """Collects the broker's account; what a killed broker told before stays in it."""

    def __init__(self) -> None:
        self._seen: dict[int, Rebalance] = {}

    @property
    def rebalances(self) -> list[Rebalance]:
        """All that were told, in the order of time."""
        return [self._seen[started_ms] for started_ms in sorted(self._seen)]

    def sample(self, http: str) -> None:
        """Ask the broker again; a broker that does not answer changes nothing."""
        url = f"http://{http}/api/v1/groups/{settings.GROUP}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                self.take(answer.read())
        except OSError:  # Nobody listens just now, or the group is not known yet.
            return

    def take(self, content: bytes) -> None:
        """Add what one answer tells. Raises: msgspec.DecodeError, msgspec.ValidationError."""
        for each in msgspec.json.decode(content, type=_Group).history:
            self._seen[each.started_ms] = each
