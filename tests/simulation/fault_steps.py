"""What ensembles of clients have in common: a random of their own, steps, and faults of a process."""

from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.schedule import Schedule
from tests.simulation.transactions.process import Process

STEP_MS = 2_500
Fault = Callable[[], None]


class FaultSteps:
    """Who lets things befall the processes of an ensemble, one after another."""

    def __init__(self, schedule: Schedule, random: Random, faults: Sequence[tuple[int, Fault]]) -> None:
        """`faults` have weights."""
        self._schedule = schedule
        self._random = random
        self._faults = [fault for _, fault in faults]
        self._weights = [weight for weight, _ in faults]

    def later(self, step: Callable[[], None]) -> None:
        """Take a step by and by."""
        self._schedule.after(1 + int(self._random.random() * 2 * STEP_MS), step)

    def fault(self) -> None:
        """Let one of the faults befall somebody."""
        [fault] = self._random.choices(self._faults, self._weights)
        fault()

    def calm(self) -> None:
        """Let nothing befall anybody any more."""
        self._faults, self._weights = [_nothing], [1]

    def span_ms(self, longest_ms: int) -> int:
        """Return how long a fault lasts: as often short as long."""
        return int(longest_ms ** self._random.uniform(0.6, 1.0))

    def cut(self, process: Process, longest_ms: int) -> None:
        """Let nobody reach the process's host for a while."""
        until_ms = self._schedule.time_ms + self.span_ms(longest_ms)
        process.host.cut_until_ms = max(process.host.cut_until_ms, until_ms)


def _nothing() -> None:
    pass
