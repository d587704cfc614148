"""Batches of transactions on their way into a log: each only where its transaction has the partition.

Once the log knows the transaction as open it takes the next batch at once. Until then the coordinator is
asked, or told: what a producer sends meanwhile waits behind, so that nothing is overtaken.
"""

from collections.abc import Callable

from kohort.broker.handlers.transactions.family import Transactions
from kohort.broker.handlers.transactions.permission import add_partition
from kohort.broker.partitions.partition import Partition
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import BatchHeader

FIRST_VERSION_THAT_ADDS = 12
FIRST_VERSION_WITH_ABORTABLE = 11
UNREACHED = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""For these a producer would look for a coordinator that it did not ask: it is told to come again."""


class Permissions:
    """Who waits to write in which partition. The loop's thread only."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._waiting: dict[tuple[Partition, int], int] = {}

    def may_append(
        self,
        partition: Partition,
        header: BatchHeader,
        request: Request,
        transactional_id: str | None,
        resume: Callable[[ApiError | None], None],
    ) -> bool:
        """Return whether a batch may be appended now; if not, `resume` is called when it may, or never may.

        Raises: ApiError.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if partition.error_code is not None:
            raise ApiError(partition.error_code)
        key = partition, header.producer_id
        is_first = key not in self._waiting
        if is_first and partition.log.producers.is_open(header.producer_id, header.producer_epoch):
            return True
        coordinators = self._transactions.coordinators()
        place = partition.topic, partition.index
        if request.version < FIRST_VERSION_THAT_ADDS:
            code = coordinators.verify(transactional_id, header.producer_id, header.producer_epoch, place)
            if code is not None:
                raise _told(code, request.version)
            return True

        def answered(code: ErrorCode | None) -> None:
            left = self._waiting.pop(key) - 1
            if left:
                self._waiting[key] = left
            resume(None if code is None else _told(code, request.version))

        self._waiting[key] = self._waiting.get(key, 0) + 1
        add_partition(
            coordinators,
            request,
            transactional_id=transactional_id,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            place=place,
            answered=answered,
        )
        return False


def _told(code: ErrorCode, version: int) -> ApiError:
    """Return what a producer is told whose batch does not belong to its transaction."""
    if code in UNREACHED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS):
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction can't be verified: {code.name}")
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    return ApiError(code, "the partition is not part of the producer's transaction")
