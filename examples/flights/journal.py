"""What a member did, in files that outlive it.

A member writes the flights of a batch down before it commits their offsets, so whatever was committed
is in its journal, and a member killed in between leaves flights that somebody else counts again.
One `write` call per batch puts it into the operating system's hands, where SIGKILL cannot reach it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from examples.flights.dataset import Flight


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """One flight that a member read: where it lay and what the delays' means are made of."""

    partition: int
    offset: int
    index: int
    carrier: str
    departure_delay: int | None
    arrival_delay: int | None


class Event(msgspec.Struct, frozen=True):
    """Something that a member saw of its group: partitions given or taken, a commit refused."""

    at_s: float
    member: str
    what: str
    partitions: tuple[int, ...] = ()
    detail: str = ""


class Journal:
    """The two files of one member: flights and events, a JSON line each."""

    def __init__(self, folder: Path, member: str) -> None:
        self.member = member
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._flights = os.open(folder / f"{member}.flights", flags, 0o644)
        self._events = os.open(folder / f"{member}.events", flags, 0o644)
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(Flight)

    def count(self, records: Iterable[tuple[int, int, bytes]]) -> int:
        """Write a batch of (partition, offset, value) down; return how many there were."""
        counted = [self._counted(*record) for record in records]
        _write_all(self._flights, self._encoder.encode_lines(counted))
        return len(counted)

    def note(self, what: str, partitions: Iterable[int] = (), detail: str = "") -> None:
        """Write down what happened to this member just now."""
        event = Event(time.time(), self.member, what, tuple(sorted(partitions)), detail)
        _write_all(self._events, self._encoder.encode_lines([event]))

    def _counted(self, partition: int, offset: int, value: bytes) -> Counted:
        flight = self._decoder.decode(value)
        return Counted(
            partition, offset, flight.index, flight.carrier, flight.departure_delay, flight.arrival_delay
        )


class JournalReader:
    """Follows one member's flights while it writes them."""

    def __init__(self, folder: Path, member: str) -> None:
        self.member = member
        self._path = folder / f"{member}.flights"
        self._position = 0
        self._decoder = msgspec.json.Decoder(Counted)

    def new(self) -> list[Counted]:
        """Return what was written since the last call; a line without its end is left for later."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return self._decoder.decode_lines(whole)


def read_events(folder: Path) -> Iterator[Event]:
    """Yield all members' events in the order of their clocks, which is one clock."""
    events: list[Event] = []
    for path in folder.glob("*.events"):
        data = path.read_bytes()
        events += msgspec.json.Decoder(Event).decode_lines(data[: data.rfind(b"\n") + 1])
    yield from sorted(events, key=lambda event: event.at_s)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
