"""Threads that work while a test, or a benchmark, does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Work = Callable[[threading.Event], None]
"""Ends once the event is set."""


class Members:
    """Threads that work until they are told to stop; what they raise is raised in the test."""

    def __init__(self, count: int, work: Work) -> None:
        self.errors: list[Exception] = []
        self._work = work
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for each in self._threads:
            each.start()

    def stop(self, within_s: float | None = 30) -> None:
        """Have them close."""
        self._stopping.set()
        for each in self._threads:
            each.join(within_s)
        assert not self.errors, self.errors

    def _run(self) -> None:
        try:
            self._work(self._stopping)
        except Exception as error:  # noqa: BLE001 - `stop` raises it.
            self.errors.append(error)


@contextmanager
def meanwhile(work: Work) -> Iterator[None]:
    """Have a thread work within the block; at its end return when the thread has ended."""
    member = Members(1, work)
    try:
        yield
    finally:
        member.stop(within_s=None)
