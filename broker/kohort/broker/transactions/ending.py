"""EndTxn: whether a producer may end its transaction, and the result of the end (KIP-588, KIP-890)."""

from msgspec.structs import replace

from kohort.broker.transactions.commands import EndTransaction
from kohort.broker.transactions.starting import fresh_producer_id
from kohort.broker.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NEVER_MS,
    Transaction,
    TransactionState,
)
from kohort.protocol.errors import ApiError, ErrorCode

END_VERSION_THAT_BUMPS = 5

State = TransactionState


def check_end(known: Transaction, command: EndTransaction) -> None:
    """Check that the producer may end the transaction. Raises: ApiError."""
    producer_id, producer_epoch = command.message.producer_id, command.message.producer_epoch
    is_over_ids = _bumps(command) and _is_retry_over_ids(known, producer_id, producer_epoch)
    if known.producer_id != producer_id and not is_over_ids:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if _bumps(command) and known.state.is_prepared:  # It may be quicker than its markers.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _may_end(known, command):
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def end_decided(known: Transaction, command: EndTransaction) -> Transaction | None:
    """Return the transaction with its end decided; None where it has ended so. Raises: ApiError."""
    message = command.message
    is_commit, state, bumps = message.committed, known.state, _bumps(command)
    is_retry = bumps and _is_retry(known, message.producer_id, message.producer_epoch)
    if state is State.ONGOING:
        return _prepared(known, command, is_commit=is_commit)
    if state.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state is not State.EMPTY:
        is_same = is_commit == (state is State.COMPLETE_COMMIT)
        if is_same and (is_retry or not bumps):
            return None
    if is_commit and is_retry:  # The coordinator has aborted it, for its time was up: KAFKA-20785.
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if bumps and not is_commit and not is_retry:
        return _prepared(known, command, is_commit=False, is_empty=True)
    raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _bumps(command: EndTransaction) -> bool:
    return command.version >= END_VERSION_THAT_BUMPS


def _may_end(known: Transaction, command: EndTransaction) -> bool:
    """Return whether an end has the current epoch, or repeats one that was decided.

    While a transaction is open there is nothing to ask again for: by the epoch before, an end comes late, and
    would end the transaction that the producer has begun since (KIP-890).
    """
    message = command.message
    is_newest = known.producer_epoch == message.producer_epoch < EPOCH_MAX
    if not _bumps(command) or known.state in (State.EMPTY, State.ONGOING):
        return is_newest
    return is_newest or _is_retry(known, message.producer_id, message.producer_epoch)


def _is_retry(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a producer whose ends bump the epoch repeats an end, with the previous epoch.

    As in Kafka, one that was fenced by its timeout may continue from there (KIP-588, KIP-890). One
    whose id another process has taken may not: the ended transaction is the other's, and so is its epoch.
    """
    is_epoch_before = known.producer_id == producer_id and producer_epoch == known.producer_epoch - 1
    return (is_epoch_before and _is_its_own(known, producer_epoch)) or _is_retry_over_ids(
        known, producer_id, producer_epoch
    )


def _is_retry_over_ids(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether that end has given the producer another id."""
    return (
        producer_id == known.previous_producer_id
        and producer_epoch == EPOCH_MAX - 1
        and known.producer_epoch == 0
        and _is_its_own(known, producer_epoch)
    )


def _is_its_own(known: Transaction, producer_epoch: int) -> bool:
    """Return whether the newest epoch is of the producer that had the one before.

    It is where an end has bumped it, or the coordinator, for the time was up, or that producer asked for it.
    Stricter than Kafka, which does not check that: if both use different protocols, it tells the
    former producer that its transaction was committed, and both continue with one epoch.
    """
    return known.client_version >= BUMPING_VERSION or known.last_producer_epoch == producer_epoch


def _prepared(
    known: Transaction, command: EndTransaction, *, is_commit: bool, is_empty: bool = False
) -> Transaction:
    """Return the transaction with its end decided, with a new epoch if the client supports that."""
    prepared = replace(known, state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT)
    if is_empty:
        prepared.partitions = frozenset()
        prepared.start_ms = NEVER_MS
    if _bumps(command):
        prepared.client_version = BUMPING_VERSION
        prepared.last_producer_epoch = known.producer_epoch
        prepared.producer_epoch = known.producer_epoch + 1
        if known.is_epoch_exhausted:
            prepared.next_producer_id = fresh_producer_id(command.fresh_producer_id)
    else:
        prepared.client_version = 0
    return prepared
