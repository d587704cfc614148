"""DescribeTransactions: the state of transactional ids (KIP-664)."""

from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.transactions.transaction import Transaction, TransactionState
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)


def handle(
    transactions: TransactionServices, message: DescribeTransactionsRequest, request: Request
) -> DescribeTransactionsResponse:
    """Return the state of each id, once, for repeated ones too: it may have many partitions."""
    return DescribeTransactionsResponse(
        throttle_time_ms=0,
        transaction_states=tuple(
            _described(transactions, each) for each in dict.fromkeys(message.transactional_ids)
        ),
    )


def _described(
    transactions: TransactionServices, transactional_id: str
) -> DescribeTransactionsTransactionState:
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        core = transactions.shards().shard_of(transactional_id).core
    except ApiError as error:
        return _refused(transactional_id, error.code)
    found = core.transactions.get(transactional_id)
    if found is None:
        return _refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return DescribeTransactionsTransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=_topics(found),
    )


def _topics(found: Transaction) -> tuple[DescribeTransactionsTopicData, ...]:
    if found.state not in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ):
        return ()
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        topics.setdefault(topic, []).append(index)
    return tuple(
        DescribeTransactionsTopicData(topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )


def _refused(transactional_id: str, code: ErrorCode) -> DescribeTransactionsTransactionState:
    return DescribeTransactionsTransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
