"""The admin client's requests about transactions. A module of its own: few programs ask."""

from kohort.client.admin_values import OpenTransaction
from kohort.client.cluster import Cluster
from kohort.client.errors import check
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""Until its markers are written, a transaction that ends holds up readers as well."""
_NOT_TOLD = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
"""The answer about a transactional id that is removed meanwhile, or that this user may not describe."""


async def open_transactions(cluster: Cluster) -> tuple[OpenTransaction, ...]:
    """Return the open transactions that the brokers coordinate, sorted by id.

    Raises: BrokerError where a coordinator does not know them all yet, or one moves meanwhile;
        UnsupportedVersionError before Kafka 3.0.
    """
    await cluster.refresh_metadata(())
    found: list[OpenTransaction] = []
    for node_id in tuple(cluster.metadata.nodes):
        found += await _of_broker(cluster, node_id)
    return tuple(sorted(found, key=lambda each: each.transactional_id))


async def _of_broker(cluster: Cluster, node_id: int) -> list[OpenTransaction]:
    request = ListTransactionsRequest(state_filters=OPEN_STATES, producer_id_filters=())
    listed = await cluster.request(node_id, request, ListTransactionsResponse)
    check(listed.error_code)
    ids = tuple(each.transactional_id for each in listed.transaction_states)
    if not ids:
        return []
    wanted = DescribeTransactionsRequest(transactional_ids=ids)
    answer = await cluster.request(node_id, wanted, DescribeTransactionsResponse)
    told = [each for each in answer.transaction_states if each.error_code not in _NOT_TOLD]
    for each in told:
        check(each.error_code, f"transactional id {each.transactional_id!r}")
    return [_open_transaction(each) for each in told if each.transaction_state in OPEN_STATES]


def _open_transaction(told: DescribeTransactionsTransactionState) -> OpenTransaction:
    partitions = (TopicPartition(each.topic, n) for each in told.topics for n in each.partitions)
    return OpenTransaction(
        told.transactional_id,
        told.producer_id,
        told.transaction_state,
        told.transaction_start_time_ms,
        told.transaction_timeout_ms,
        tuple(sorted(partitions)),
    )
