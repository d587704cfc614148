"""The requests that wait at a partition."""

from typing import Generic, Protocol, TypeVar

import structlog

from kohort.broker.runtime.workers import Event

PartitionT = TypeVar("PartitionT")
PartitionT_contra = TypeVar("PartitionT_contra", contravariant=True)

log = structlog.get_logger("kohort.partition")


class Wait(Protocol[PartitionT_contra]):
    """A request that waits until there is more to read in a partition."""

    def advanced(self, partition: PartitionT_contra, /) -> None:
        """Check again: the high watermark has moved, or the partition does not serve any more."""
        ...


class TaskWait:
    """A task that waits for any event of a partition."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def advanced(self, _partition: object, /) -> None:
        """Wake the task."""
        self._event.set()


class Waits(dict[Wait[PartitionT], None], Generic[PartitionT]):
    """Requests that wait for the same event; each leaves separately."""

    __slots__ = ()

    def wake(self, partition: PartitionT) -> None:
        """Let all of them check again."""
        for wait in tuple(self):
            try:
                wait.advanced(partition)
            except Exception:  # A supervisor: an error of one request is kept from the others.
                log.exception("a request could not be woken", partition=repr(partition))
                self.pop(wait, None)
