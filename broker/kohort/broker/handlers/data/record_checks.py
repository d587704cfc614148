"""A thread for batches that are too much work for the loop, in the order in which they came.

A later batch of the same connection must not overtake one in flight: while a connection `is_busy`, all its
batches go this way. The thread pauses between slices of its work, so that the loop gets the
interpreter when it wants it and not only every five milliseconds.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.workers import Workers

T = TypeVar("T")

REST_SECONDS = 0.000_1  # Less, and the thread has the interpreter back before the loop has woken.


class RecordChecks:
    """Batches being checked, by their connection. The loop's thread only."""

    def __init__(self, loop: Loop, workers: Workers) -> None:
        self._loop = loop
        self._queue = workers.queue("record-checks")
        self._in_flight: dict[object, int] = {}

    def is_busy(self, connection: object) -> bool:
        """Whether something that came on this connection is still being looked into."""
        return connection in self._in_flight

    def submit(self, connection: object, check: Callable[[], T], done: Callable[["Future[T]"], None]) -> None:
        """Have `check` done in the thread, and `done` called with its result in the loop's."""
        self._in_flight[connection] = self._in_flight.get(connection, 0) + 1
        finished = partial(self._finished, connection, done)
        future = self._queue.submit(check)
        future.add_done_callback(lambda made: self._loop.post(partial(finished, made)))

    def _finished(self, connection: object, done: Callable[["Future[T]"], None], future: "Future[T]") -> None:
        left = self._in_flight.pop(connection) - 1
        if left:
            self._in_flight[connection] = left
        done(future)

    def close(self) -> None:
        """End the thread after the batch in flight; the rest is dropped. Blocks."""
        self._queue.shutdown(cancel_futures=True)


def rest() -> None:
    """Let the loop's thread have the interpreter."""
    time.sleep(REST_SECONDS)
