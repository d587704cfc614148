"""The interface of tasks to a loop that waits by itself: its rounds end when a task could continue.

A round waits a moment for the next, and trio runs no task meanwhile. That is right while everything
arrives through the loop's own poller. A task that reads another socket would get its bytes up to a
millisecond late, or, under load, only after the rounds of a whole turn.
"""

from typing import Protocol


class Turns(Protocol):
    """A loop that shares its thread with tasks. The loop's thread only."""

    def let_tasks_run(self) -> None:
        """End the rounds: a task has been woken."""
        ...

    def watch_descriptor(self, descriptor: int) -> None:
        """End the rounds as well where this descriptor is readable: a task waits for that."""
        ...

    def unwatch_descriptor(self, descriptor: int) -> None:
        """Undo `watch_descriptor`: no task waits for the descriptor any more."""
        ...


class NoTurns:
    """For tasks that share their thread with no such loop."""

    def let_tasks_run(self) -> None:
        """Do nothing."""

    def watch_descriptor(self, descriptor: int) -> None:
        """Do nothing."""

    def unwatch_descriptor(self, descriptor: int) -> None:
        """Do nothing."""


NO_TURNS = NoTurns()
