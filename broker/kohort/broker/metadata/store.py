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
# never will be, as `MetadataConflict` or a `StorageError` says. Or it is unknown, as `ChangeUnknown` says.


class MetadataConflict(Exception):
    """Refused: an object of the mutation was changed since the mutation was decided."""


class MetadataUnavailable(StorageError):
    """Refused: the metadata could not be reached in time."""


class BrokerFenced(StorageError):
    """Refused: this broker's registration is gone, or another process has it: it may change nothing."""


class ChangeUnknown(Exception):
    """Unknown: the change may have been made, may be made later, or never; its answer was lost.

    Deliberately neither a `StorageError` nor a `MetadataConflict`: code that handles a refusal must not
    handle this by accident. A caller that has prepared for the change must keep
    that state until the metadata show the result.
    """


Failed = (StorageError, ChangeUnknown)
"""For callers that only report that a change is not known to be made."""


class MetadataStore(Protocol):
    """Snapshot, compare-and-set change, watch. All of it is called in the loop's thread."""

    def snapshot(self) -> Snapshot:
        """Return the newest metadata; cheap enough for every request."""
        ...

    async def change(self, basis: Snapshot, mutation: Mutation, *, controller_epoch: int = 0) -> Snapshot:
        """Return a snapshot in which `mutation` is durable, after every watcher was called with it.

        It was decided on `basis`, and holds where all that it touches is still as it is there: each
        partition, each topic's name, id, number of partitions and settings, each configuration. What else
        has changed does not matter. A decision of the controller has its epoch. Raises:
        MetadataConflict and StorageError, and nothing has changed, nor will; ChangeUnknown if an answer
        was lost.
        """
        ...

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return a snapshot with `broker` registered at its address. Raises: StorageError."""
        ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        ...

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return producer ids that were never allocated before, and never will be after a crash.

        Raises: StorageError if they could not be made durable.
        """
        ...


async def update(
    store: MetadataStore, decide: Callable[[Snapshot], Mutation], *, controller_epoch: int = 0
) -> Snapshot:
    """Return the snapshot after the mutation that `decide` made of the newest one; repeated at a conflict.

    An empty mutation changes nothing. Errors of `decide` are raised to the caller. Raises: StorageError,
    ChangeUnknown; nothing is decided again while an earlier change may still be made.
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
    """Return the error for a client if a disk fails, or the metadata cannot be reached.

    Kafka's controller answers REQUEST_TIMED_OUT, too, where a change may still be made.
    """
    if isinstance(error, MetadataUnavailable | BrokerFenced | ChangeUnknown):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
