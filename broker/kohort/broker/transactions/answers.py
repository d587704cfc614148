"""The answers to producers: to a command that fails, and to the end of a transaction."""

from kohort.broker.transactions.commands import AddPartitions, Command, EndTransaction, InitProducerId
from kohort.broker.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, Transaction
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.end_txn import EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdResponse
from kohort.protocol.schema import Message

INIT_VERSION_OF_FENCED = 4  # From here on clients know PRODUCER_FENCED; before, INVALID_PRODUCER_EPOCH.
END_VERSION_OF_FENCED = 2


def init_answer(code: ErrorCode, version: int) -> InitProducerIdResponse:
    """Return the answer to a producer that gets no epoch."""
    if code is ErrorCode.PRODUCER_FENCED and version < INIT_VERSION_OF_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_epoch=NO_EPOCH)


def end_answer(code: ErrorCode, version: int) -> EndTxnResponse:
    """Return the answer to a producer whose end is refused."""
    if code is ErrorCode.PRODUCER_FENCED and version < END_VERSION_OF_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(throttle_time_ms=0, error_code=code)


def ended_answer(transaction: Transaction) -> EndTxnResponse:
    """Return the answer to an end, with the producer's next id and epoch."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    if transaction.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = transaction.next_producer_id, 0
    return EndTxnResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=epoch)


def code_alone(code: ErrorCode) -> AddOffsetsToTxnResponse:
    """Return an answer that says nothing but a code."""
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)


def refusal(command: Command, code: ErrorCode) -> Message | None:
    """Return the answer to a refused command; None without a requester."""
    if isinstance(command, InitProducerId):
        return init_answer(code, command.version)
    if isinstance(command, AddPartitions):
        return code_alone(code)
    return end_answer(code, command.version) if isinstance(command, EndTransaction) else None
