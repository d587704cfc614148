"""The functions that a store of metadata calls at each change."""

from collections.abc import Callable

import structlog

from kohort.broker.metadata.snapshot import Snapshot
from kohort.broker.metadata.store import Watcher

log = structlog.get_logger("kohort.metadata")


class Watchers:
    """The watchers of a store. The loop's thread only."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []

    def add(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def changed(self, before: Snapshot, after: Snapshot) -> None:
        """Call all of them; an error of one is logged with its name, and kept from the others."""
        for watcher in tuple(self._watchers):
            try:
                watcher(before, after)
            except Exception:  # A supervisor: the change is made, and the others have to know it.
                log.exception(
                    "a watcher of the metadata failed", watcher=_name(watcher), version=after.version
                )


def _name(watcher: Watcher) -> str:
    function = getattr(watcher, "func", watcher)  # Of a partial.
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
