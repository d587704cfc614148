"""Who counted which flight, and whether the count is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isclose

from examples.flights.dataset import FLIGHTS, MeanDelays
from examples.flights.journal import Counted


@dataclass(slots=True)
class Mean:
    """A mean that grows by one value at a time."""

    total: int = 0
    values: int = 0

    def add(self, value: int | None) -> None:
        """Take a value in; a missing one does not count."""
        if value is not None:
            self.total += value
            self.values += 1

    @property
    def value(self) -> float:
        """The mean of what was added."""
        return self.total / self.values if self.values else 0.0


@dataclass(slots=True)
class CarrierTally:
    """What was counted of one carrier."""

    flights: int = 0
    departure: Mean = field(default_factory=Mean)
    arrival: Mean = field(default_factory=Mean)

    def add(self, counted: Counted) -> None:
        """Take one flight in."""
        self.flights += 1
        self.departure.add(counted.departure_delay)
        self.arrival.add(counted.arrival_delay)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether every flight was counted. `wrong_means` names the carriers whose means are off."""

    expected: int
    missing: tuple[int, ...]
    read_twice: int
    wrong_means: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Nothing lost and nothing miscounted; reading twice is what at-least-once allows."""
        return not self.missing and not self.wrong_means


class Ledger:
    """Counts each flight once for the means, and every reading of it for the member that read it."""

    def __init__(self, expected: int = FLIGHTS) -> None:
        self.expected = expected
        self.by_member: Counter[str] = Counter()
        self.by_partition: Counter[int] = Counter()
        self.carriers: dict[str, CarrierTally] = {}
        self._times_read: Counter[int] = Counter()
        self._last_reader: dict[int, str] = {}

    @property
    def distinct(self) -> int:
        """How many flights were counted at all."""
        return len(self._times_read)

    @property
    def read_twice(self) -> int:
        """How many readings there were beyond the first of each flight."""
        return self._times_read.total() - len(self._times_read)

    def add(self, member: str, batch: Iterable[Counted]) -> None:
        """Enter what a member reported."""
        for counted in batch:
            self.by_member[member] += 1
            self._last_reader[counted.partition] = member
            self._times_read[counted.index] += 1
            if self._times_read[counted.index] == 1:
                self.by_partition[counted.partition] += 1
                self.carriers.setdefault(counted.carrier, CarrierTally()).add(counted)

    def unread_by_member(self, end_offsets: Mapping[int, int]) -> Counter[str]:
        """Return what is left, by the member that read last from each partition."""
        left: Counter[str] = Counter()
        for partition, member in self._last_reader.items():
            left[member] += end_offsets[partition] - self.by_partition[partition]
        return left

    def verify(self, truth: Mapping[str, MeanDelays]) -> Verdict:
        """Return whether all flights are here and the carriers' means are those of `truth`."""
        missing = tuple(index for index in range(self.expected) if index not in self._times_read)
        carriers = sorted(self.carriers.keys() | truth.keys())
        wrong = tuple(carrier for carrier in carriers if not self._agrees(carrier, truth.get(carrier)))
        return Verdict(self.expected, missing, self.read_twice, wrong)

    def _agrees(self, carrier: str, truth: MeanDelays | None) -> bool:
        tally = self.carriers.get(carrier)
        return (
            tally is not None
            and truth is not None
            and tally.flights == truth.flights
            and isclose(tally.departure.value, truth.departure, rel_tol=1e-9, abs_tol=1e-9)
            and isclose(tally.arrival.value, truth.arrival, rel_tol=1e-9, abs_tol=1e-9)
        )
