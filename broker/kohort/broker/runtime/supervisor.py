"""Keeps background tasks running: a failed one is logged, counted and restarted, with growing delays.

    supervisor = Supervisor(workers, clock)
    supervisor.start("log cleaner", cleaner.run)    # which gets its Part
    with part.working(at_most_ms=600_000): ...      # for readiness: a part that hangs in here is named
    supervisor.reasons()                            # why the broker is not ready, as text

A task that returns has ended of its own accord. Cancellation passes through.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import structlog

from kohort.broker.runtime.clock import Clock

RESTART_MS_MIN = 1_000
RESTART_MS_MAX = 60_000
STEADY_MS = 10_000  # A task that has run for so long since its restart counts as healthy again.

log = structlog.get_logger("kohort.supervisor")


class Tasks(Protocol):
    """The part of `Workers` that a supervisor needs."""

    def spawn(self, function: Callable[..., Awaitable[object]], /, *arguments: object) -> None:
        """Run the coroutine function as a task of its own."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class Watched(Protocol):
    """The supervisor's interface for a repeated task."""

    def working(self, at_most_ms: int) -> AbstractContextManager[None]:
        """Do something within the block that should not take longer."""
        ...


class Unwatched:
    """Without a supervisor: for a task that runs alone."""

    def working(self, at_most_ms: int) -> AbstractContextManager[None]:
        """Work inside the block, for any time."""
        return nullcontext()


UNWATCHED = Unwatched()


def restart_delay_ms(failures: int) -> int:
    """Return the delay of the next start after so many failures in a row: twice as long each time."""
    assert failures > 0
    return min(RESTART_MS_MIN << min(failures - 1, 16), RESTART_MS_MAX)


class Part:
    """One background task, or the loop itself: how it has fared."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.restarts = 0
        """How often it was started again since the broker's start."""
        self.is_working = False
        """Whether it is within a block of `working`: a round of a task that runs again and again."""
        self._clock = clock
        self._failures = 0  # In a row.
        self._error: str | None = None
        self._started_ms = clock.now_ms()
        self._waits = False  # Whether it is down until its next start.
        self._due_ms: int | None = None  # The deadline of its next sign of life.

    def beat(self, again_within_ms: int) -> None:
        """Give a sign of life, and the latest time of the next."""
        self._due_ms = self._clock.now_ms() + again_within_ms

    @contextmanager
    def working(self, at_most_ms: int) -> Iterator[None]:
        """Do something within the block that should not take longer; between blocks it may rest."""
        self.beat(at_most_ms)
        self.is_working = True
        try:
            yield
        finally:
            self.is_working = False
            self._due_ms = None

    def reason(self) -> str | None:
        """Return why the broker is not ready for this part's sake, or None while it is well."""
        now_ms = self._clock.now_ms()
        if self._error is not None and (self._waits or now_ms - self._started_ms < STEADY_MS):
            return f"{self.name}: failed, and is started again: {self._error}"
        if self._due_ms is not None and now_ms > self._due_ms:
            return (
                f"{self.name}: no sign of life for {(now_ms - self._due_ms) // 1_000} s longer than allowed"
            )
        return None

    def started(self) -> None:
        """Note a start."""
        self._waits = False
        self._due_ms = None
        self._started_ms = self._clock.now_ms()

    def failed(self, error: Exception) -> int:
        """Note a failure; return after how many milliseconds to start again."""
        if self._clock.now_ms() - self._started_ms >= STEADY_MS:
            self._failures = 0
        self._failures += 1
        self.restarts += 1
        self._error = f"{type(error).__name__}: {error}"
        self._due_ms = None
        self._waits = True
        return restart_delay_ms(self._failures)


class Supervisor:
    """Starts the parts, and starts them again. The loop's thread only."""

    def __init__(self, tasks: Tasks, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self.parts: list[Part] = []

    def part(self, name: str) -> Part:
        """Return a part that runs elsewhere, such as the event loop, and gives its signs of life itself."""
        part = Part(name, self._clock)
        self.parts.append(part)
        return part

    def start(self, name: str, run: Callable[[Part], Awaitable[object]]) -> Part:
        """Run the coroutine function as a task, again whenever it fails; return how it fares.

        `run` gets the same part, to tell when it works and for how long that may take.
        """
        part = self.part(name)
        self._tasks.spawn(self._keep, part, run)
        return part

    def reasons(self) -> list[str]:
        """Return why the broker is not ready, one line for each part that is down or hangs."""
        return [reason for part in self.parts if (reason := part.reason()) is not None]

    async def _keep(self, part: Part, run: Callable[[Part], Awaitable[object]]) -> None:
        while True:
            part.started()
            try:
                await run(part)
            except Exception as error:  # The supervisor: one bug in one part shall not end the broker.
                delay_ms = part.failed(error)
                log.exception("a background task failed", part=part.name, restart_in_ms=delay_ms)
            else:
                return
            await self._tasks.sleep(delay_ms / 1_000)
