"""The transaction coordinator: commands in, records and effects out, and nothing besides.

Source: org.apache.kafka coordinator.transaction.TransactionCoordinator, TransactionMetadata; KIP-98, KIP-360,
KIP-890.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kohort.broker.group.decision import CancelTimer, Decision, Effect, Note, Record, Reply, SetTimer
from kohort.broker.transactions.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducerId,
    MarkersDue,
    MarkersWritten,
    TimerFired,
    TransactionTimer,
)
from kohort.broker.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
    logged_transaction,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.end_txn import EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdResponse
from kohort.protocol.schema import Message
from kohort.protocol.transaction_log import TransactionLogKey, TransactionLogValue

INIT_VERSION_OF_FENCED = 4  # From here on clients know PRODUCER_FENCED; before, INVALID_PRODUCER_EPOCH.
END_VERSION_OF_FENCED = 2
END_VERSION_THAT_BUMPS = 5

State = TransactionState


class TransactionConfig(msgspec.Struct, frozen=True):
    """The settings that the core knows."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000


class TransactionCoordinator:
    """The transactional ids of one partition of `__transaction_state`, as a state machine."""

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self._handlers: dict[type, Callable[[Any, int], Decision]] = {
            InitProducerId: self._init_producer_id,
            AddPartitions: self._add_partitions,
            EndTransaction: self._end_transaction,
            MarkersWritten: self._markers_written,
            TimerFired: self._timer_fired,
            ExpireTransactionalIds: self._expire,
        }

    def handle(self, command: Command, now_ms: int) -> Decision:
        """Return what follows from the command at that time."""
        return self._handlers[type(command)](command, now_ms)

    def replay(self, record: Record) -> None:
        """Take a logged record over: one just decided, or one read from the log."""
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        known = self.transactions.pop(key.transactional_id, None)
        if value is not None:
            assert isinstance(value, TransactionLogValue)
            transaction = logged_transaction(key, value)
            if known is not None:
                transaction.last_producer_epoch = known.last_producer_epoch
            self.transactions[key.transactional_id] = transaction

    def loaded(self, now_ms: int) -> Decision:
        """Return what is still to be done for the transactions that the log has."""
        effects: list[Effect] = []
        for transaction in self.transactions.values():
            if transaction.state.is_prepared:
                effects.append(_markers_due(transaction))
            elif transaction.state is State.ONGOING:
                effects.append(_timer(transaction))
        return Decision((), tuple(effects))

    def give_up(self, code: ErrorCode) -> Decision:
        """Return nothing: nobody waits in here."""
        return Decision()

    # -- what the shell asks before and besides ------------------------------------------------------------

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether the next epoch of this id's producer may take a producer id that nobody has had."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or transaction.is_epoch_exhausted

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: TopicPartition
    ) -> ErrorCode | None:
        """Return why a partition is not part of the producer's transaction, None where it is."""
        try:
            transaction = self._usable(transactional_id, producer_id, producer_epoch)
        except ApiError as error:
            return error.code
        if transaction.state is State.ONGOING and place in transaction.partitions:
            return None
        return ErrorCode.TRANSACTION_ABORTABLE

    def _usable(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Transaction:
        """Return the transaction that its producer may write to now. Raises: ApiError."""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        _check_not_ahead(transaction, producer_id)
        if transaction.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch or producer_epoch == EPOCH_MAX:
            raise ApiError(ErrorCode.PRODUCER_FENCED)  # The last epoch is for fencing alone: none follows it.
        if transaction.state.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction

    # -- InitProducerId ------------------------------------------------------------------------------------

    def _init_producer_id(self, command: InitProducerId, now_ms: int) -> Decision:
        try:
            known = self._initialisable(command)
            if known.state is State.ONGOING:
                return self._fence(known, now_ms, (Reply(command.request_id, _not_yet()),))
            started = self._started(known, command)
        except ApiError as error:
            return Decision((), (Reply(command.request_id, init_answer(error.code, command.version)),))
        started.timeout_ms, started.last_update_ms = command.message.transaction_timeout_ms, now_ms
        self._remember_last_epoch(started)
        answer = InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=0,
            producer_id=started.producer_id,
            producer_epoch=started.producer_epoch,
        )
        return Decision((_record(started),), (Reply(command.request_id, answer),))

    def _initialisable(self, command: InitProducerId) -> Transaction:
        """Return the transactional id, a new one where there was none. Raises: ApiError."""
        message = command.message
        if not message.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < message.transaction_timeout_ms <= self.config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self.transactions.get(message.transactional_id)
        if known is None:
            return Transaction(message.transactional_id, _fresh(command.fresh_producer_id))
        _check_not_ahead(known, message.producer_id)
        if not _may_go_on(known, message.producer_id, message.producer_epoch):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return known

    def _started(self, known: Transaction, command: InitProducerId) -> Transaction:
        """Return the transactional id with a new epoch, and no transaction. Raises: ApiError."""
        expected_epoch = command.message.producer_epoch
        started = replace(
            known,
            state=State.EMPTY,
            partitions=frozenset(),
            start_ms=NEVER_MS,
            previous_producer_id=NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
        )
        is_worn_out = known.is_epoch_exhausted and expected_epoch in (NO_EPOCH, known.producer_epoch)
        if is_worn_out or (known.producer_epoch == EPOCH_MAX and expected_epoch == known.last_producer_epoch):
            started.previous_producer_id = known.producer_id
            started.producer_id = _fresh(command.fresh_producer_id)
            started.producer_epoch = 0
            started.last_producer_epoch = NO_EPOCH if expected_epoch == NO_EPOCH else known.producer_epoch
        elif expected_epoch == NO_EPOCH:
            started.producer_epoch, started.last_producer_epoch = known.producer_epoch + 1, NO_EPOCH
        elif known.producer_epoch in (expected_epoch, NO_EPOCH):
            started.last_producer_epoch = known.producer_epoch
            started.producer_epoch = known.producer_epoch + 1
        elif expected_epoch != known.last_producer_epoch:  # Else it asks again what it was not told.
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return started

    def _remember_last_epoch(self, transaction: Transaction) -> None:
        """Keep what the log does not say: a retry after the next start is refused, as Kafka's is."""
        known = self.transactions.get(transaction.transactional_id)
        if known is None:
            known = Transaction(transaction.transactional_id)
            self.transactions[transaction.transactional_id] = known
        known.last_producer_epoch = transaction.last_producer_epoch

    # -- a transaction ---------------------------------------------------------------------------------------

    def _add_partitions(self, command: AddPartitions, now_ms: int) -> Decision:
        try:
            known = self._usable(command.transactional_id, command.producer_id, command.producer_epoch)
        except ApiError as error:
            return Decision((), (Reply(command.request_id, code_alone(error.code)),))
        answer = Reply(command.request_id, code_alone(ErrorCode.NONE))
        if known.state is State.ONGOING and command.partitions <= known.partitions:
            return Decision((), (answer,))
        if known.state is State.ONGOING:
            added = replace(known, partitions=known.partitions | command.partitions, last_update_ms=now_ms)
            return Decision((_record(added),), (answer,))
        begun = replace(
            known,
            state=State.ONGOING,
            partitions=command.partitions,
            start_ms=now_ms,
            last_update_ms=now_ms,
            client_version=command.client_version,
        )
        return Decision((_record(begun),), (_timer(begun), answer))

    def _end_transaction(self, command: EndTransaction, now_ms: int) -> Decision:
        try:
            known = self._ending(command)
            prepared = self._decide_end(known, command)
        except ApiError as error:
            return Decision((), (Reply(command.request_id, end_answer(error.code, command.version)),))
        if prepared is None:  # It has ended that way before.
            return Decision((), (Reply(command.request_id, _ended(known)),))
        return self._prepare(prepared, now_ms, (Reply(command.request_id, _ended(prepared)),))

    def _ending(self, command: EndTransaction) -> Transaction:
        """Return the transaction that its producer may end. Raises: ApiError."""
        message = command.message
        producer_id, producer_epoch = message.producer_id, message.producer_epoch
        if not message.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(message.transactional_id)
        if known is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        _check_not_ahead(known, producer_id)
        is_over_ids = _bumps(command) and _is_retry_over_ids(known, producer_id, producer_epoch)
        if known.producer_id != producer_id and not is_over_ids:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if _bumps(command) and known.state.is_prepared:  # It may be quicker than its markers.
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not _may_end(known, command):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return known

    def _decide_end(self, known: Transaction, command: EndTransaction) -> Transaction | None:
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

    def _prepare(self, prepared: Transaction, now_ms: int, replies: tuple[Effect, ...]) -> Decision:
        """Return the decision for an end: logged first, then told, then carried out."""
        prepared.last_update_ms = now_ms
        if prepared.start_ms == NEVER_MS:
            prepared.start_ms = now_ms
        known = self.transactions[prepared.transactional_id]
        known.last_producer_epoch = prepared.last_producer_epoch
        return Decision(
            (_record(prepared),),
            (
                CancelTimer(TransactionTimer(prepared.transactional_id)),  # type: ignore[arg-type]  # another core's
                *replies,
                _markers_due(prepared),
            ),
        )

    def _fence(self, known: Transaction, now_ms: int, replies: tuple[Effect, ...]) -> Decision:
        """Return the decision that aborts an open transaction, and lets its producer write no more.

        Unless another takes its id, the producer may go on with the next epoch once it asks for it (KIP-588).
        """
        fenced = replace(
            known,
            state=State.PREPARE_ABORT,
            producer_epoch=known.producer_epoch + 1,
            last_producer_epoch=known.producer_epoch,
        )
        return self._prepare(fenced, now_ms, replies)

    def _markers_written(self, command: MarkersWritten, now_ms: int) -> Decision:
        known = self.transactions.get(command.transactional_id)
        if (
            known is None
            or not known.state.is_prepared
            or (known.producer_id, known.producer_epoch) != (command.producer_id, command.producer_epoch)
        ):
            return Decision()
        is_commit = known.state is State.PREPARE_COMMIT
        completed = replace(
            known,
            state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        if known.next_producer_id != NO_PRODUCER_ID:
            completed.previous_producer_id = known.producer_id
            completed.producer_id, completed.next_producer_id = known.next_producer_id, NO_PRODUCER_ID
            completed.producer_epoch = 0
        elif known.client_version >= BUMPING_VERSION:
            completed.previous_producer_id = known.producer_id
        return Decision((_record(completed),))

    # -- time ------------------------------------------------------------------------------------------------

    def _timer_fired(self, command: TimerFired, now_ms: int) -> Decision:
        known = self.transactions.get(command.key.transactional_id)
        if known is None or known.state is not State.ONGOING:
            return Decision()
        if now_ms < known.deadline_ms:
            return Decision((), (_timer(known),))
        return self._fence(known, now_ms, ())

    def _expire(self, _command: ExpireTransactionalIds, now_ms: int) -> Decision:
        latest_ms = now_ms - self.config.transactional_id_expiration_ms
        return Decision(
            tuple(
                _tombstone(each)
                for each in self.transactions.values()
                if each.state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
                and each.last_update_ms <= latest_ms
            )
        )


def _record(transaction: Transaction) -> Record:
    return Record(transaction.key, transaction.value())


def _tombstone(transaction: Transaction) -> Record:
    return Record(transaction.key, None)


def _timer(transaction: Transaction) -> Effect:
    key = TransactionTimer(transaction.transactional_id)
    return SetTimer(key, transaction.deadline_ms)  # type: ignore[arg-type]  # another core's key


def _markers_due(transaction: Transaction) -> Effect:
    due = MarkersDue(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is State.PREPARE_COMMIT,
        transaction.partitions,
        transaction.client_version,
    )
    return Note(due)  # type: ignore[arg-type]  # another core's event


def _fresh(producer_id: int | None) -> int:
    """Return the id. Raises: ApiError where there was none: the producer asks again."""
    if producer_id is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return producer_id


def _may_go_on(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a producer with this id is the newest, or asks again for what it was not told (KIP-360).

    Its epoch is looked at where it is bumped.
    """
    if producer_id == NO_PRODUCER_ID or known.producer_epoch == NO_EPOCH or producer_id == known.producer_id:
        return True
    return producer_id == known.previous_producer_id and producer_epoch >= EPOCH_MAX - 1


def _check_not_ahead(known: Transaction, producer_id: int) -> None:
    """Return unless the producer has its next id from an end whose markers are still being written.

    The end is answered before they are. Raises: ApiError with CONCURRENT_TRANSACTIONS: it shall come again.
    """
    if known.state.is_prepared and producer_id == known.next_producer_id != NO_PRODUCER_ID:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _bumps(command: EndTransaction) -> bool:
    return command.version >= END_VERSION_THAT_BUMPS


def _may_end(known: Transaction, command: EndTransaction) -> bool:
    """Return whether an end has the epoch of what is to end, or asks again for one that was decided.

    While a transaction is open there is nothing to ask again for: by the epoch before, an end comes late, and
    would end the transaction that the producer has begun since (KIP-890).
    """
    message = command.message
    is_newest = known.producer_epoch == message.producer_epoch < EPOCH_MAX
    if not _bumps(command) or known.state in (State.EMPTY, State.ONGOING):
        return is_newest
    return is_newest or _is_retry(known, message.producer_id, message.producer_epoch)


def _is_retry(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a producer whose ends bump the epoch ends again what has ended, with that of before.

    As in Kafka, one that was fenced because its time was up may go on from there (KIP-588, KIP-890). One
    whose id another process has taken may not: what has ended then is the other's, and so is its epoch.
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
    Stricter than Kafka, which does not look at that: where both speak different protocols, it tells the
    producer of before that its transaction was committed, and has two go on by one epoch.
    """
    return known.client_version >= BUMPING_VERSION or known.last_producer_epoch == producer_epoch


def _prepared(
    known: Transaction, command: EndTransaction, *, is_commit: bool, is_empty: bool = False
) -> Transaction:
    """Return the transaction with its end decided, under a new epoch where the client knows of that."""
    prepared = replace(known, state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT)
    if is_empty:
        prepared.partitions = frozenset()
        prepared.start_ms = NEVER_MS
    if _bumps(command):
        prepared.client_version = BUMPING_VERSION
        prepared.last_producer_epoch = known.producer_epoch
        prepared.producer_epoch = known.producer_epoch + 1
        if known.is_epoch_exhausted:
            prepared.next_producer_id = _fresh(command.fresh_producer_id)
    else:
        prepared.client_version = 0
    return prepared


def _ended(transaction: Transaction) -> EndTxnResponse:
    """Return the answer to an end, with what the producer goes on with."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    if transaction.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = transaction.next_producer_id, 0
    return EndTxnResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=epoch)


def _not_yet() -> InitProducerIdResponse:
    return init_answer(ErrorCode.CONCURRENT_TRANSACTIONS, INIT_VERSION_OF_FENCED)


def init_answer(code: ErrorCode, version: int) -> InitProducerIdResponse:
    """Return what a producer is told that gets no epoch."""
    if code is ErrorCode.PRODUCER_FENCED and version < INIT_VERSION_OF_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_epoch=NO_EPOCH)


def end_answer(code: ErrorCode, version: int) -> EndTxnResponse:
    """Return what a producer is told whose transaction can't be ended so."""
    if code is ErrorCode.PRODUCER_FENCED and version < END_VERSION_OF_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(throttle_time_ms=0, error_code=code)


def code_alone(code: ErrorCode) -> AddOffsetsToTxnResponse:
    """Return an answer that says nothing but a code."""
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)


def refusal(command: Command, code: ErrorCode) -> Message | None:
    """Return what whoever sent the command is told where it can't be carried out; None where nobody waits."""
    if isinstance(command, InitProducerId):
        return init_answer(code, command.version)
    if isinstance(command, AddPartitions):
        return code_alone(code)
    return end_answer(code, command.version) if isinstance(command, EndTransaction) else None
