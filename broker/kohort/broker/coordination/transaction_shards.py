"""The shards of transactions: `__transaction_state`, which keeps what each transactional id has under way."""

from collections.abc import Awaitable, Callable

from kohort.broker.coordination.coordinator_shards import CoordinatorShards
from kohort.broker.coordination.marker_sender import MarkerSender
from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import Shard
from kohort.broker.coordination.transaction_machine import TransactionMachine
from kohort.broker.coordination.transaction_markers import MarkerWriter
from kohort.broker.coordination.transaction_partitions import TransactionPartitions
from kohort.broker.group.events import Event
from kohort.broker.transactions.commands import ExpireTransactionalIds, MarkersDue
from kohort.broker.transactions.coordinator import TransactionCoordinator

TransactionShard = Shard[TransactionCoordinator]


class TransactionShards(CoordinatorShards[str, TransactionCoordinator]):
    """The shards of transactions, by transactional id, and their requests about partitions."""

    def __init__(
        self,
        machine: TransactionMachine,
        services: CoordinatorServices,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        markers: MarkerWriter,
        peers: PeerRequests | None = None,
    ) -> None:
        """`markers` writes those for partitions that are led here; `peers` are None for a broker alone."""
        super().__init__(
            machine,
            services,
            ensure_topic=ensure_topic,
            partitions_at_creation=lambda config: config.transaction_state_log_num_partitions,
        )
        self.markers = markers
        self.transaction_partitions = TransactionPartitions(self, services, markers, peers)
        self.sender = MarkerSender(
            self, services, markers, peers, on_ended=self.transaction_partitions.transaction_ended
        )
        self._repeat(
            "expire transactional ids",
            lambda config: config.transaction_remove_expired_transaction_cleanup_interval_ms,
            lambda: self.submit_to_active(ExpireTransactionalIds()),
        )

    def deciding_shard_of(self, transactional_id: str) -> TransactionShard:
        """Return the active shard of a transactional id, for a command that changes something.

        Raises: ApiError, as `shard_of`, and COORDINATOR_NOT_AVAILABLE while too few replicas are in sync.
        """
        shard = self.shard_of(transactional_id)
        shard.check_enough_replicas()
        return shard

    def _new_shard(self, index: int) -> TransactionShard:
        def note(event: Event | MarkersDue) -> None:
            assert isinstance(event, MarkersDue)
            self.sender.send(shard, event)

        shard = self._make(Shard, index, note)
        return shard
