"""Batches of transactions on their way into a log: each only where its transaction has the partition.

When the log knows the transaction as open it accepts the next batch at once. Until then the coordinator is
asked, and later batches of the producer wait, so that none is overtaken.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import structlog

from kohort.broker.coordination.transaction_wire import Addition
from kohort.broker.handlers.transactions.family import TransactionServices
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
"""For these a producer would look for a coordinator that it did not ask: it gets a retriable error."""


log = structlog.get_logger("kohort.transaction")


class _Waiting(NamedTuple):
    """A batch that waits until its transaction has the partition."""

    header: BatchHeader
    request: Request
    transactional_id: str
    resume: Callable[[ApiError | None], None]


class _Asking:
    """A question to the coordinator, for the first waiting batch."""

    __slots__ = ("is_answered", "is_later", "waiting")

    def __init__(self, waiting: _Waiting) -> None:
        self.waiting = waiting
        self.is_answered = False
        self.is_later = False  # Whether its requester has disconnected meanwhile.


class Permissions:
    """The batches that wait for permission to be written. The loop's thread only."""

    def __init__(self, transactions: TransactionServices) -> None:
        self._transactions = transactions
        self._waiting: dict[tuple[Partition, int], deque[_Waiting]] = {}  # The first one's answer is awaited.

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
        before = self._waiting.get(key)
        waiting = _Waiting(header, request, transactional_id, resume)
        if before is not None:
            before.append(waiting)
            return False
        if partition.log.producers.is_open(header.producer_id, header.producer_epoch):
            return True
        if request.version < FIRST_VERSION_THAT_ADDS:
            addition = _addition(partition, waiting)
            code = self._transactions.shards().transaction_partitions.verify_here(addition)
            if code is None:
                return True
            if code is not ErrorCode.NOT_COORDINATOR:  # Else another broker is asked.
                raise _producer_error(code, request.version)
        self._waiting[key] = deque((waiting,))
        self._go_on(key)
        return False

    def _go_on(self, key: tuple[Partition, int]) -> None:
        """Continue the batches, in order, that need no question any more; then the next one asks."""
        queue = self._waiting[key]
        while queue:
            first = queue[0]
            if self._is_open(key[0], first.header):
                queue.popleft()
                _resume(first, None)
                continue
            asking = _Asking(first)
            self._ask(key, asking)
            if not asking.is_answered:
                asking.is_later = True
                return
        del self._waiting[key]

    def _ask(self, key: tuple[Partition, int], asking: "_Asking") -> None:
        addition = _addition(key[0], asking.waiting)
        transaction_partitions = self._transactions.shards().transaction_partitions
        ask = transaction_partitions.verify if addition.verify_only else transaction_partitions.add
        ask(addition, partial(self._answered, key, asking))

    def _answered(self, key: tuple[Partition, int], asking: "_Asking", code: ErrorCode | None) -> None:
        asking.is_answered = True
        self._waiting[key].popleft()
        waiting = asking.waiting
        _resume(waiting, None if code is None else _producer_error(code, waiting.request.version))
        if asking.is_later:  # Otherwise the requester continues.
            self._go_on(key)

    @staticmethod
    def _is_open(partition: Partition, header: BatchHeader) -> bool:
        return partition.error_code is None and partition.log.producers.is_open(
            header.producer_id, header.producer_epoch
        )


def _addition(partition: Partition, waiting: _Waiting) -> Addition:
    """Return the question to the coordinator of a batch's transaction."""
    header = waiting.header
    place = partition.topic, partition.index
    verify_only = waiting.request.version < FIRST_VERSION_THAT_ADDS
    return Addition(waiting.transactional_id, header.producer_id, header.producer_epoch, place, verify_only)


def _resume(waiting: _Waiting, error: ApiError | None) -> None:
    """Continue a batch; an error closes its connection, and does not affect later batches."""
    try:
        waiting.resume(error)
    except Exception:  # A supervisor: others wait for the same answer, of other connections too.
        log.exception(
            "a transactional batch could not be appended", transactional_id=waiting.transactional_id
        )
        waiting.request.hang_up()


def _producer_error(code: ErrorCode, version: int) -> ApiError:
    """Return the error for a producer whose batch does not belong to its transaction."""
    if code in UNREACHED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS):
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction can't be verified: {code.name}")
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    return ApiError(code, "the partition is not part of the producer's transaction")
