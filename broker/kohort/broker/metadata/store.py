"""The interface that all metadata sits behind; a cluster can keep it elsewhere than one broker does."""

from collections.abc import Callable
from typing import Protocol

from kohort.broker.metadata.snapshot import BrokerState, Mutation, Snapshot

PRODUCER_ID_BLOCK = 1_000
"""How many producer ids a broker takes at once, as Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE."""

Watcher = Callable[[Snapshot, Snapshot], None]
"""Told of the snapshot before and the one after a change, in the loop's thread."""


class MetadataConflict(Exception):
    """The metadata has moved on since the snapshot that a mutation was made for."""

    def __init__(self, expected_version: int, actual_version: int) -> None:
        super().__init__(
            f"metadata is at version {actual_version}, not at {expected_version} as the change has it"
        )
        self.expected_version = expected_version
        self.actual_version = actual_version


class MetadataStore(Protocol):
    """Snapshot, compare-and-set change, watch. All of it is called in the loop's thread."""

    def snapshot(self) -> Snapshot:
        """Return the newest metadata; cheap enough for every request."""
        ...

    async def change(self, expected_version: int, mutation: Mutation) -> Snapshot:
        """Return the snapshot in which `mutation` is durable and every watcher has been told of it.

        Raises: MetadataConflict if the newest version is another than the expected one; StorageError
        if it could not be made durable: then nothing has changed.
        """
        ...

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return the snapshot in which `broker` is known under its address."""
        ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        ...

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return producer ids that nobody was given before, and nobody will be after a crash.

        Raises: StorageError if they could not be made durable.
        """
        ...


async def update(store: MetadataStore, decide: Callable[[Snapshot], Mutation]) -> Snapshot:
    """Return the snapshot after what `decide` made of the newest one; decided anew at a conflict.

    An empty mutation changes nothing. What `decide` raises goes to the caller.
    """
    while True:
        before = store.snapshot()
        mutation = decide(before)
        if not mutation:
            return before
        try:
            return await store.change(before.version, mutation)
        except MetadataConflict:
            continue  # Another change came between: its result is in the next snapshot.
