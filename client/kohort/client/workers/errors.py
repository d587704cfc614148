"""The errors of a pool of workers."""

from kohort.client.errors import KohortError
from kohort.client.values import AnyRecord


class HandlerError(KohortError):
    """A handler raised, and there is no error callback: the pool has stopped before `record`.

    The handler's own error is the cause of this one.
    """

    def __init__(self, record: AnyRecord, error: BaseException) -> None:
        self.record = record
        place = f"{record.topic}-{record.partition} at {record.offset}"
        super().__init__(f"the handler failed on the record of {place}: {error!r}")

    @property
    def retriable(self) -> bool:
        """Never: the same record is read again anyway."""
        return False
