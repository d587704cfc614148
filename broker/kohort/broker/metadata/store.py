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


# A change ends in one of three ways. It is made: a snapshot is returned. It is refused: it is not made, and
# never will be, as `MetadataConflict` or a `StorageError` says. Or nobody knows, as `ChangeUnknown` says.


class MetadataConflict(Exception):
    """Refused: something that a mutation touches is not any more as it was when the mutation was decided."""


class MetadataUnavailable(StorageError):
    """Refused: nobody who keeps the metadata was reached in time."""


class BrokerFenced(StorageError):
    """Refused: this broker's registration is gone, or another process has it: it may change nothing."""


class ChangeUnknown(Exception):
    """Unknown: the change may have been made, may be made later, or never; its answer was lost.

    Deliberately neither a `StorageError` nor a `MetadataConflict`: nobody who handles a refusal handles this
    by accident. Whoever has changed something of its own for the case that the change is made has to keep
    that until the metadata show what has become of it.
    """


Failed = (StorageError, ChangeUnknown)
"""What a caller catches that only has to tell somebody that the change is not known to be made."""


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
        MetadataConflict and StorageError, and nothing has changed, nor will; ChangeUnknown where an answer
        was lost.
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

    An empty mutation changes nothing. What `decide` raises goes to the caller. Raises: StorageError,
    ChangeUnknown; nothing is decided anew while an earlier change may still be made.
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


def storage_error(error: StorageError | ChangeUnknown) -> ApiError:
    """Return what a client is told of a disk that fails, or of a cluster that can't be asked just now.

    Kafka's controller answers REQUEST_TIMED_OUT, too, where a change may still be made.
    """
    if isinstance(error, MetadataUnavailable | BrokerFenced | ChangeUnknown):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
