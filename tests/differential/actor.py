"""A virtual member, and the words in which it speaks of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

LONG_MS = 60_000
SHORT_MS = 1_500


@dataclass
class Words:
    """What a member says of itself, in truth or not."""

    group_id: str
    member: str = ""
    instance_id: str | None = None
    generation_id: int = -1
    protocol_type: str | None = "consumer"
    protocol_name: str | None = "range"
    protocols: Sequence[tuple[str, Sequence[str]]] = field(default_factory=list)
    session_ms: int = LONG_MS
    rebalance_ms: int = LONG_MS


@dataclass
class Actor:
    """A virtual member: what it is, and what it believes of itself."""

    client_id: str
    instance_id: str | None
    protocols: list[tuple[str, list[str]]]
    session_ms: int = LONG_MS
    rebalance_ms: int = LONG_MS
    label: str = ""
    generation_id: int = -1
    protocol_name: str | None = None
    owes_sync: bool = False
    followers: tuple[str, ...] = ()
    busy: int | None = None

    def words(self, group_id: str) -> Words:
        """Return the truth."""
        return Words(
            group_id=group_id,
            member=self.label,
            instance_id=self.instance_id,
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            protocols=self.protocols,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
