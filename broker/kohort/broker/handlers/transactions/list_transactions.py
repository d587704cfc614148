"""ListTransactions: the transactional ids of this broker, by state, producer, duration and pattern.

Source: TransactionStateManager.listTransactionStates; KIP-664, KIP-994, KIP-1152. A pattern is a regular
expression that a whole id has to match, in RE2's syntax as in Kafka. It is matched only against ids that
the requester may describe.
"""

from kohort.broker.group.consumer.patterns import Pattern, TooMuchWork
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.transactions.transaction import LABELS, TransactionState
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)


def handle(
    transactions: TransactionServices, message: ListTransactionsRequest, request: Request
) -> ListTransactionsResponse:
    """Return the transactions that match the filters."""
    try:
        pattern = _pattern(message.transactional_id_pattern)
        shards = transactions.shards()
        now_ms = shards.clock.now_ms()
        may_describe = request.permissions.may_describe_transaction
        states, producer_ids = frozenset(message.state_filters), frozenset(message.producer_id_filters)
        listed = tuple(
            ListTransactionsTransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.label,
            )
            for shard in shards.active()
            for each in shard.core.transactions.values()
            if each.state is not TransactionState.DEAD
            and (not producer_ids or each.producer_id in producer_ids)
            and (not states or each.state.label in states)
            and (message.duration_filter < 0 or now_ms - each.start_ms > message.duration_filter)
            and (
                pattern is None
                or (may_describe(each.transactional_id) and _matches(pattern, each.transactional_id))
            )
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


def _matches(pattern: Pattern, transactional_id: str) -> bool:
    """Return whether the whole id matches. Raises: ApiError where that would block the loop."""
    try:
        return pattern.matches(transactional_id)
    except TooMuchWork as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error


def _pattern(text: str | None) -> Pattern | None:
    """Return the expression. Raises: ApiError."""
    if not text:
        return None
    try:
        return Pattern(text)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
