"""Clients without references that were not closed: a ResourceWarning, and their end in the background.

A client's thread or tasks refer only to its session, never to the client itself: so it can be collected, and
its `__del__` calls this module. The session then sends its final requests, within their timeout, and ends.
The interpreter's end waits for such sessions.
"""

import atexit
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kohort.client.any_thread import from_any_thread
from kohort.client.cluster_tasks import ClusterTasks, Finish


class Ending(Protocol):
    """A thread's loop that ends by itself."""

    def abandon(self, finish: Finish, timeout_ms: float) -> None:
        """Send the final requests within the timeout, and then end."""

    def wait_for_end(self, timeout_ms: float) -> None:
        """Return when it has ended, or at the timeout."""


_ending: dict[Ending, float] = {}


def warn_of(client: object) -> None:
    """Say that a client was collected open."""
    what = f"unclosed {client!r}: use it in a `with` block, or close it"
    warnings.warn(what, ResourceWarning, stacklevel=3, source=client)


def end_soon(client: object, loop: Ending, finish: Finish, timeout_ms: float) -> None:
    """Warn about a blocking client, and let its loop end; from its `__del__`, in any thread."""
    try:
        warn_of(client)
    finally:
        _ending[loop] = timeout_ms
        loop.abandon(finish, timeout_ms)


def has_ended(loop: Ending) -> None:
    """The interpreter's end does not have to wait for it."""
    _ending.pop(loop, None)


def _wait_for_all() -> None:
    for loop, timeout_ms in tuple(_ending.items()):
        loop.wait_for_end(timeout_ms)


atexit.register(_wait_for_all)


class OpenTasks:
    """What an asynchronous client needs to end by itself: its cluster's tasks, and a way into their loop.

    Made while the client is opened. It knows nothing of the client.
    """

    def __init__(self, cluster: ClusterTasks) -> None:
        self._cluster = cluster
        self._call_soon = from_any_thread()

    def end_soon(self, client: object, abandon: Callable[[], None]) -> None:
        """Warn about an open client, and `abandon` it in its loop; from its `__del__`, in any thread."""
        if not self._cluster.is_open:
            return
        try:
            warn_of(client)
        finally:
            with suppress(RuntimeError):  # The loop has ended, and all of its tasks.
                self._call_soon(abandon)
