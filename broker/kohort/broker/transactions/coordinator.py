"""The transaction coordinator: commands in, records and effects out, and nothing besides.

Source: org.apache.kafka coordinator.transaction.TransactionCoordinator, TransactionMetadata; KIP-98, KIP-360,
KIP-890.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kohort.broker.group.decision import CancelTimer, Decision, Effect, Note, Record, Reply, SetTimer
from kohort.broker.transactions.answers import code_alone, end_answer, ended_answer, init_answer
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
from kohort.broker.transactions.ending import check_end, end_decided
from kohort.broker.transactions.starting import fresh_producer_id, may_go_on, started
from kohort.broker.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NEVER_MS,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
    logged_transaction,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdResponse
from kohort.protocol.transaction_log import TransactionLogKey, TransactionLogValue

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
        """Return the pending work for the transactions in the log."""
        effects: list[Effect] = []
        for transaction in self.transactions.values():
            if transaction.state.is_prepared:
                effects.append(_markers_due(transaction))
            elif transaction.state is State.ONGOING:
                effects.append(_timer(transaction))
        return Decision((), tuple(effects))

    def give_up(self, code: ErrorCode) -> Decision:
        """Return nothing: no request is parked here."""
        return Decision()

    # -- called by the shell besides commands --------------------------------------------------------------

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether the next epoch of this id's producer may need an unused producer id."""
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
        transaction = self._known(transactional_id)
        _check_not_ahead(transaction, producer_id)
        if transaction.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch or producer_epoch == EPOCH_MAX:
            raise ApiError(ErrorCode.PRODUCER_FENCED)  # The last epoch is for fencing alone: none follows it.
        if transaction.state.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction

    def _known(self, transactional_id: str) -> Transaction:
        """Return the state of the transactional id. Raises: ApiError."""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    # -- InitProducerId ------------------------------------------------------------------------------------

    def _init_producer_id(self, command: InitProducerId, now_ms: int) -> Decision:
        try:
            known = self._initialisable(command)
            if known.state is State.ONGOING:
                answer = init_answer(ErrorCode.CONCURRENT_TRANSACTIONS, command.version)
                return self._fence(known, now_ms, (Reply(command.request_id, answer),))
            transaction = started(known, command)
        except ApiError as error:
            return Decision((), (Reply(command.request_id, init_answer(error.code, command.version)),))
        transaction.timeout_ms, transaction.last_update_ms = command.message.transaction_timeout_ms, now_ms
        self._remember_last_epoch(transaction)
        answer = InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=0,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
        )
        return Decision((_record(transaction),), (Reply(command.request_id, answer),))

    def _initialisable(self, command: InitProducerId) -> Transaction:
        """Return the transactional id, a new one where there was none. Raises: ApiError."""
        message = command.message
        if not message.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < message.transaction_timeout_ms <= self.config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self.transactions.get(message.transactional_id)
        if known is None:
            return Transaction(message.transactional_id, fresh_producer_id(command.fresh_producer_id))
        _check_not_ahead(known, message.producer_id)
        if not may_go_on(known, message.producer_id, message.producer_epoch):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return known

    def _remember_last_epoch(self, transaction: Transaction) -> None:
        """Keep the last epoch, which is not in the log.

        A retry after the next start is refused, as Kafka's is.
        """
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
            prepared = end_decided(known, command)
        except ApiError as error:
            return Decision((), (Reply(command.request_id, end_answer(error.code, command.version)),))
        if prepared is None:  # It has ended that way before.
            return Decision((), (Reply(command.request_id, ended_answer(known)),))
        return self._prepare(prepared, now_ms, (Reply(command.request_id, ended_answer(prepared)),))

    def _ending(self, command: EndTransaction) -> Transaction:
        """Return the transaction that its producer may end. Raises: ApiError."""
        known = self._known(command.message.transactional_id)
        _check_not_ahead(known, command.message.producer_id)
        check_end(known, command)
        return known

    def _prepare(self, prepared: Transaction, now_ms: int, replies: tuple[Effect, ...]) -> Decision:
        """Return the decision for an end: logged first, then answered, then executed."""
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
        """Return the decision that aborts an open transaction, and fences its producer.

        Unless another takes its id, the producer may continue with the next epoch when it asks for it
        (KIP-588).
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


def _check_not_ahead(known: Transaction, producer_id: int) -> None:
    """Return unless the producer has its next id from an end whose markers are still being written.

    The end is answered before they are. Raises: ApiError with CONCURRENT_TRANSACTIONS: it shall come again.
    """
    if known.state.is_prepared and producer_id == known.next_producer_id != NO_PRODUCER_ID:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


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
