"""EndTxn: commit or abort; answered once the end is decided and durable, markers follow (KIP-98, KIP-890)."""

from collections.abc import Awaitable

from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.transactions.answers import end_answer
from kohort.broker.transactions.commands import EndTransaction
from kohort.broker.transactions.ending import END_VERSION_THAT_BUMPS
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.storage import StorageError


def handle(
    transactions: TransactionServices, message: EndTxnRequest, request: Request
) -> EndTxnResponse | Awaitable[EndTxnResponse | None] | None:
    """Let the coordinator decide."""
    try:
        core = transactions.shards().deciding_shard_of(message.transactional_id).core
    except ApiError as error:
        return end_answer(error.code, request.version)
    if request.version >= END_VERSION_THAT_BUMPS and core.needs_producer_id(message.transactional_id):
        return _with_producer_id(transactions, message, request)
    return _end(transactions, message, request, None)


async def _with_producer_id(
    transactions: TransactionServices, message: EndTxnRequest, request: Request
) -> EndTxnResponse | None:
    try:
        fresh = await transactions.producer_ids.next()
    except StorageError:
        return end_answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.version)
    return _end(transactions, message, request, fresh)


def _end(
    transactions: TransactionServices, message: EndTxnRequest, request: Request, fresh_producer_id: int | None
) -> EndTxnResponse | None:
    try:
        shard = transactions.shards().deciding_shard_of(message.transactional_id)
    except ApiError as error:
        return end_answer(error.code, request.version)
    request_id = shard.ask(request, request.respond)
    shard.submit(EndTransaction(request_id, message, request.version, fresh_producer_id))
    return None
