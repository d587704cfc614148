"""How long a broker let somebody wait, on a machine that has other work.

What the machine's other work costs is not the broker's fault: from the time that passes the time is taken
off in which the client stood runnable without a processor, and that in which the broker did: the thread of
its that lost most, for while one stands still with the interpreter's lock the others stand still as well.
The kernel counts both, in /proc/PID/task/TID/schedstat (its second number, in nanoseconds).
"""

from __future__ import annotations

import time
from pathlib import Path

NANOSECONDS_PER_MS = 1_000_000


class Stopwatch:
    """Runs from the moment that it is made."""

    def __init__(self, broker_pid: int) -> None:
        self._broker = Path(f"/proc/{broker_pid}/task")
        self._before = unscheduled_ns(self._broker)
        self._own_before = unscheduled_ns(Path("/proc/self/task"))
        self.began_s = time.monotonic()

    def took_ms(self) -> float:
        """Return what has passed on the wall."""
        return (time.monotonic() - self.began_s) * 1000

    def waited_ms(self) -> float:
        """Return what has passed without what the machine's other work took."""
        took_ms = self.took_ms()
        idle_ns = most_lost(self._before, unscheduled_ns(self._broker))
        idle_ns += most_lost(self._own_before, unscheduled_ns(Path("/proc/self/task")))
        return max(0.0, took_ms - idle_ns / NANOSECONDS_PER_MS)


def most_lost(before: dict[str, int], after: dict[str, int]) -> int:
    """Return the time that one thread stood runnable in between, the one for which it is longest."""
    return max((lost_ns - before.get(thread, 0) for thread, lost_ns in after.items()), default=0)


def unscheduled_ns(tasks: Path) -> dict[str, int]:
    """Return how long each thread has been runnable without a processor; nothing of a process that ended."""
    found: dict[str, int] = {}
    try:
        for thread in tasks.iterdir():
            found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return found
    return found
