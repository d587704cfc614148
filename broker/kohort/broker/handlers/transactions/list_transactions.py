"""ListTransactions: the transactional ids of this broker, by state, producer, duration and pattern.

Source: TransactionStateManager.listTransactionStates; KIP-664, KIP-994, KIP-1152. A pattern is a regular
expression that a whole id has to match; in Kafka it is re2j's dialect, which Python's has as a part.
"""

import re

from kohort.broker.handlers.transactions.family import Transactions
from kohort.broker.transactions.transaction import LABELS, Transaction, TransactionState
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)

PATTERN_LENGTH_MAX = 256
_REPEATED_GROUP = re.compile(r"[*+}]\s*\)\s*[*+{]|\\[1-9]|\(\?")


def handle(
    transactions: Transactions, message: ListTransactionsRequest, request: Request
) -> ListTransactionsResponse:
    """Return what the filters let pass."""
    try:
        pattern = _pattern(message.transactional_id_pattern)
        coordinators = transactions.coordinators()
        now_ms = coordinators.now_ms()
        listed = tuple(
            ListTransactionsTransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.label,
            )
            for shard in coordinators.shards()
            for each in shard.core.transactions.values()
            if _passes(message, each, now_ms)
            and (pattern is None or pattern.fullmatch(each.transactional_id) is not None)
        )
    except ApiError as error:
        return ListTransactionsResponse(
            throttle_time_ms=0, error_code=error.code, unknown_state_filters=(), transaction_states=()
        )
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=tuple(each for each in message.state_filters if each not in LABELS),
        transaction_states=listed,
    )


def _passes(message: ListTransactionsRequest, found: Transaction, now_ms: int) -> bool:
    if found.state is TransactionState.DEAD:
        return False
    if message.producer_id_filters and found.producer_id not in message.producer_id_filters:
        return False
    if message.state_filters and found.state.label not in message.state_filters:
        return False
    return message.duration_filter < 0 or now_ms - found.start_ms > message.duration_filter


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the expression; one that could take for ever is refused. Raises: ApiError."""
    if not text:
        return None
    if len(text) > PATTERN_LENGTH_MAX or _REPEATED_GROUP.search(text):
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION)
    try:
        return re.compile(text)
    except re.error as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
