"""The admin client's requests about transactions. A module of its own: few programs ask."""

from kohort.client.admin_values import OpenTransaction
from kohort.client.cluster import Cluster
from kohort.client.errors import check
from kohort.client.values import TopicPartition
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""Until its markers are written, a transaction that ends holds up readers as well."""


async def open_transactions(cluster: Cluster) -> tuple[OpenTransaction, ...]:
    """Return the open transactions that the brokers coordinate, sorted by id.

    Raises: UnsupportedVersionError before Kafka 3.0.
    """
    await cluster.refresh_metadata(())
    found: list[OpenTransaction] = []
    for node_id in tuple(cluster.metadata.nodes):
        found += await _of_broker(cluster, node_id)
    return tuple(sorted(found, key=lambda each: each.transactional_id))


async def _of_broker(cluster: Cluster, node_id: int) -> list[OpenTransaction]:
    connection = await cluster.connection(node_id)
    timeout_ms = cluster.config.request_timeout_ms
    request = ListTransactionsRequest(state_filters=OPEN_STATES, producer_id_filters=())
    listed = await connection.request(request, ListTransactionsResponse, timeout_ms=timeout_ms)
    check(listed.error_code)
    ids = tuple(each.transactional_id for each in listed.transaction_states)
    if not ids:
        return []
    wanted = DescribeTransactionsRequest(transactional_ids=ids)
    answer = await connection.request(wanted, DescribeTransactionsResponse, timeout_ms=timeout_ms)
    return [
        _open_transaction(each)
        for each in answer.transaction_states  # One that has ended, or moved, meanwhile has an error.
        if not each.error_code and each.transaction_state in OPEN_STATES
    ]


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
