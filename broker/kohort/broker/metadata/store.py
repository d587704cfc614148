"""The interface that all metadata sits behind; a cluster can keep it elsewhere than one broker does."""

from collections.abc import Callable
from typing import Protocol

from kohort.broker.metadata.snapshot import BrokerState, Mutation, Snapshot
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError

PRODUCER_ID_BLOCK = 1_000
"""How many producer ids a broker takes at once, as Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE."""

Watcher = Callable[[Snapshot, Snapshot], None]
"""Told of the snapshot before and the one after a change, in the loop's thread."""


class MetadataConflict(Exception):
    """Something that a mutation touches is not any more as the snapshot has it that it was decided on."""


class MetadataUnavailable(StorageError):
    """Nobody who keeps the metadata has answered in time; a change may have been made."""


class BrokerFenced(StorageError):
    """This broker's registration is gone, or another process has it: it may change nothing."""


class MetadataStore(Protocol):
    """Snapshot, compare-and-set change, watch. All of it is called in the loop's thread."""

    def snapshot(self) -> Snapshot:
        """Return the newest metadata; cheap enough for every request."""
        ...

    async def change(self, basis: Snapshot, mutation: Mutation, *, controller_epoch: int = 0) -> Snapshot:
        """Return a snapshot in which `mutation` is durable and every watcher has been told of it.

        It was decided on `basis`, and holds where all that it touches is still as it is there: each
        partition, each topic's name, id, number of partitions and settings, each configuration. What else
        has changed does not matter. Who decides as the controller says under which epoch. Raises:
        MetadataConflict, and nothing has changed; StorageError if it could not be made durable.
        """
        ...

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return a snapshot in which `broker` lives at its address. Raises: StorageError."""
        ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        ...

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return producer ids that nobody was given before, and nobody will be after a crash.

        Raises: StorageError if they could not be made durable.
        """
        ...


async def update(
    store: MetadataStore, decide: Callable[[Snapshot], Mutation], *, controller_epoch: int = 0
) -> Snapshot:
    """Return the snapshot after what `decide` made of the newest one; decided anew at a conflict.

    An empty mutation changes nothing. What `decide` raises goes to the caller.
    """
    while True:
        before = store.snapshot()
        mutation = decide(before)
        if not mutation:
            return before
        try:
            return await store.change(before, mutation, controller_epoch=controller_epoch)
        except MetadataConflict:
            continue  # Another change came between: its result is in the next snapshot.


def storage_error(error: StorageError) -> ApiError:
    """Return what a client is told of a disk that fails, or of a cluster that can't be asked just now."""
    if isinstance(error, MetadataUnavailable | BrokerFenced):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
