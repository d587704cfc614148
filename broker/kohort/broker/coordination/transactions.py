"""The coordinator of transactions, put together for a broker that is asked for one."""

from collections.abc import Awaitable, Callable

import structlog

from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.peer_requests import peers_of
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.transaction_machine import TransactionMachine
from kohort.broker.coordination.transaction_markers import MarkerWriter
from kohort.broker.coordination.transaction_shards import TransactionShards
from kohort.broker.transactions.coordinator import TransactionConfig

log = structlog.get_logger("kohort.transaction")


def transaction_shards(
    services: CoordinatorServices, groups: GroupShards, *, ensure_topic: Callable[[], Awaitable[object]]
) -> TransactionShards:
    """Return the shards of transactions; nothing of them is loaded yet."""
    config = services.current.config
    machine = TransactionMachine(
        TransactionConfig(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
    )
    return TransactionShards(
        machine,
        services,
        ensure_topic=ensure_topic,
        markers=MarkerWriter(services, groups),
        peers=peers_of(services, log),
    )
