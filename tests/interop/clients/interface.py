"""What the tests ask of a Kafka client, whichever it is.

Each client keeps its default settings except for the options that a test names.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to produce; None lets the client choose."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record as a client gave it to its user."""

    place: Place
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """Where a consumer departs from its client's defaults."""

    group: str | None = None
    topics: Sequence[str] = ()
    assigned: Sequence[Place] = ()
    session_timeout_ms: int | None = None
    instance_id: str | None = None
    strategy: str | None = None
    auto_commit: bool | None = None
    start: str = "earliest"


class Told(NamedTuple):
    """Partitions that a listener was told of, and when by `time.monotonic()`."""

    at_s: float
    places: frozenset[Place]
    is_assigned: bool


@dataclass(slots=True)
class Changes:
    """What a rebalance listener was told."""

    told: list[Told] = field(default_factory=list)

    @property
    def assigned(self) -> list[frozenset[Place]]:
        """What it was given, one time after another."""
        return [each.places for each in tuple(self.told) if each.is_assigned]

    @property
    def revoked(self) -> list[frozenset[Place]]:
        """What was taken from it."""
        return [each.places for each in tuple(self.told) if not each.is_assigned]

    def note_assigned(self, places: frozenset[Place], at_s: float | None = None) -> None:
        """It was told of these, just now or at that time of `time.monotonic()`."""
        self.told.append(Told(time.monotonic() if at_s is None else at_s, places, is_assigned=True))

    def note_revoked(self, places: frozenset[Place], at_s: float | None = None) -> None:
        """These are taken from it."""
        self.told.append(Told(time.monotonic() if at_s is None else at_s, places, is_assigned=False))


class ConsumerClient(Protocol):
    """A consumer; used by one thread at a time."""

    changes: Changes
    async_commits: int

    def poll(self, timeout_s: float) -> list[Incoming]:
        """Return records, or nothing after the timeout."""

    def assignment(self) -> frozenset[Place]:
        """Return what it owns now."""

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        """Commit these offsets, or all positions, and wait for the answer."""

    def commit_async(self) -> None:
        """Commit all positions; the answer raises `async_commits` during a later poll."""

    def committed(self, place: Place) -> int | None:
        """Return the group's committed offset."""

    def position(self, place: Place) -> int:
        """Return the offset of the next record."""

    def seek(self, place: Place, offset: int) -> None:
        """Read on from there."""

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        """Return the first offset with this or a later timestamp."""

    def bounds(self, place: Place) -> tuple[int, int]:
        """Return the first offset and the one after the last."""

    def close(self) -> None:
        """Leave the group and end."""


class Client(Protocol):
    """One of the client libraries."""

    name: str

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None = None
    ) -> list[tuple[int, int]]:
        """Produce with default settings; return each record's partition and offset as acknowledged."""

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConsumerClient:
        """Return a consumer, subscribed if the options name topics."""
