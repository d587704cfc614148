"""The cluster's metadata as a broker that is alone has them: nobody changes them but the simulation."""

from collections.abc import Callable
from itertools import count

from kohort.broker.metadata import Mutation, PartitionState, Snapshot

NODE_ID = 1
FIRST_PRODUCER_ID = 1_000


def places(number: int, node_id: int = NODE_ID) -> tuple[PartitionState, ...]:
    """Return so many partitions of a topic, all on one broker."""
    return tuple(PartitionState(index, node_id, 0, (node_id,), (node_id,)) for index in range(number))


class Metadata:
    """The cluster's metadata: it outlives the broker, and changes when the simulation says so."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._watchers: list[Callable[[Snapshot, Snapshot], None]] = []
        self._producer_ids = count(FIRST_PRODUCER_ID)

    def snapshot(self) -> Snapshot:
        """Return the newest metadata."""
        return self._snapshot

    def watch(self, watcher: Callable[[Snapshot, Snapshot], None]) -> Callable[[], None]:
        """Tell `watcher` of each change until the returned function is called."""
        self._watchers.append(watcher)

        def unwatch() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return unwatch

    def apply(self, mutation: Mutation) -> None:
        """Change it at once."""
        before, self._snapshot = self._snapshot, self._snapshot.after(mutation)
        for watcher in tuple(self._watchers):
            watcher(before, self._snapshot)

    def forget_watchers(self) -> None:
        """The broker that watched has died."""
        self._watchers.clear()

    def next_producer_id(self) -> int:
        """Return an id that nobody has had."""
        return next(self._producer_ids)
