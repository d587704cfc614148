"""What a computation costs beside another one: a ratio, which is the same on a slow or busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from kohort.broker.runtime.garbage import without_collections

TRIES = 5


def times_as_costly(costly: Callable[[], object], cheap: Callable[[], object]) -> float:
    """Return how many times the CPU time of `cheap` `costly` takes in this thread.

    Both run several times in turns; the least time of each counts, which others have disturbed the least.
    """
    with without_collections():  # A look through all that other tests have left takes more than both.
        pairs = [(_cpu_seconds(costly), _cpu_seconds(cheap)) for _ in range(TRIES)]
    return min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)


def _cpu_seconds(function: Callable[[], object]) -> float:
    began = time.thread_time()
    function()
    return time.thread_time() - began
