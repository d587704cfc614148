"""InitProducerId: which producer may continue, and its next epoch (KIP-360)."""

from msgspec.structs import replace

from kohort.broker.transactions.commands import InitProducerId
from kohort.broker.transactions.transaction import (
    EPOCH_MAX,
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from kohort.protocol.errors import ApiError, ErrorCode


def may_go_on(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a producer with this id is the newest, or repeats a request without an answer (KIP-360).

    Its epoch is checked when it is bumped.
    """
    if producer_id == NO_PRODUCER_ID or known.producer_epoch == NO_EPOCH or producer_id == known.producer_id:
        return True
    return producer_id == known.previous_producer_id and producer_epoch >= EPOCH_MAX - 1


def started(known: Transaction, command: InitProducerId) -> Transaction:
    """Return the transactional id with a new epoch, and no transaction. Raises: ApiError."""
    expected_epoch = command.message.producer_epoch
    started = replace(
        known,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_ms=NEVER_MS,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
    )
    is_worn_out = known.is_epoch_exhausted and expected_epoch in (NO_EPOCH, known.producer_epoch)
    if is_worn_out or (known.producer_epoch == EPOCH_MAX and expected_epoch == known.last_producer_epoch):
        started.previous_producer_id = known.producer_id
        started.producer_id = fresh_producer_id(command.fresh_producer_id)
        started.producer_epoch = 0
        started.last_producer_epoch = NO_EPOCH if expected_epoch == NO_EPOCH else known.producer_epoch
    elif expected_epoch == NO_EPOCH:
        started.producer_epoch, started.last_producer_epoch = known.producer_epoch + 1, NO_EPOCH
    elif known.producer_epoch in (expected_epoch, NO_EPOCH):
        started.last_producer_epoch = known.producer_epoch
        started.producer_epoch = known.producer_epoch + 1
    elif expected_epoch != known.last_producer_epoch:  # Otherwise it repeats a request without an answer.
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return started


def fresh_producer_id(producer_id: int | None) -> int:
    """Return the id. Raises: ApiError where there was none: the producer asks again."""
    if producer_id is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return producer_id
