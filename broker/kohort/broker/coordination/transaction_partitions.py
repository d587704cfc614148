"""Which partitions belong to a transaction: asked of its coordinator, here or on another broker (KIP-890).

Older clients add partitions themselves, and the coordinator verifies it. Newer clients leave that
to the broker that they write to, which adds the partition, and continues when that is durable.
Source: Kafka's AddPartitionsToTxnManager.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kohort.broker.coordination.coordinator_shards import CoordinatorShards
from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import BrokerRequester
from kohort.broker.coordination.transaction_markers import MarkerWriter
from kohort.broker.coordination.transaction_wire import ADD_PARTITIONS, Addition
from kohort.broker.transactions.commands import AddPartitions
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.transaction import BUMPING_VERSION, TopicPartition
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.schema import Message

Answered = Callable[[ErrorCode | None], None]
"""Called with None where the partition belongs to the transaction, and with the error where it does not."""


class _Seen(NamedTuple):
    """The state of a producer in a partition. If it is equal later, no marker was written in between."""

    log: object
    leader_epoch: int
    markers: int
    markers_under_way: int


class TransactionPartitions:
    """Adds partitions to transactions, or verifies that they were added. The loop's thread only."""

    def __init__(
        self,
        shards: CoordinatorShards[str, TransactionCoordinator],
        services: CoordinatorServices,
        markers: MarkerWriter,
        peers: PeerRequests | None,
    ) -> None:
        """`peers` are None for a broker alone."""
        self._shards = shards
        self._services = services
        self._markers = markers
        self._peers = peers
        self._waiting: dict[str, dict[object, Callable[[], None]]] = {}  # By transactional id.

    def verify_here(self, addition: Addition) -> ErrorCode | None:
        """Return why a partition is not part of a transaction that is coordinated here, None where it is.

        NOT_COORDINATOR where another broker coordinates it.
        """
        try:
            core = self._shards.shard_of(addition.transactional_id).core
        except ApiError as error:
            return error.code
        return core.verify(
            addition.transactional_id, addition.producer_id, addition.producer_epoch, addition.place
        )

    def verify(self, addition: Addition, answered: Answered) -> None:
        """Verify a partition: at once where that is decided here, else in the order of the calls."""
        code = self.verify_here(addition)
        if code is ErrorCode.NOT_COORDINATOR:
            self.ask_coordinator(addition, answered)
        else:
            answered(code)

    def add(self, addition: Addition, answered: Answered) -> None:
        """Add a partition to a transaction, and call `answered` once that is durable or refused.

        While the producer's last transaction is ending it is tried again, for as long as the settings say.
        """
        self._add(addition, answered, self._services.clock.now_ms())

    def _add(self, addition: Addition, answered: Answered, began_ms: int) -> None:
        transactional_id = addition.transactional_id

        def failed(code: ErrorCode) -> None:
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or not self._when_ended(
                transactional_id, began_ms, partial(self._add, addition, answered, began_ms)
            ):
                answered(code)

        def respond(message: Message) -> None:
            assert isinstance(message, AddOffsetsToTxnResponse)
            code: ErrorCode | None = ErrorCode(message.error_code)
            if code is ErrorCode.NONE:  # The transaction may have timed out since.
                code = shard.core.verify(
                    addition.transactional_id, addition.producer_id, addition.producer_epoch, addition.place
                )
            if code is None:
                answered(None)
            else:
                failed(code)

        try:
            shard = self._shards.shard_of(transactional_id)
            shard.check_enough_replicas()
        except ApiError as error:
            if error.code is ErrorCode.NOT_COORDINATOR:
                self.ask_coordinator(addition, lambda code: answered(None) if code is None else failed(code))
            else:
                failed(error.code)
            return
        shard.submit(
            AddPartitions(
                shard.ask(BrokerRequester(failed), respond),
                transactional_id,
                addition.producer_id,
                addition.producer_epoch,
                frozenset((addition.place,)),
                BUMPING_VERSION,
            )
        )

    # -- another broker's transactions --------------------------------------------------------------------

    def ask_coordinator(self, addition: Addition, answered: Answered) -> None:
        """Let another broker, which coordinates the transaction, add or verify a partition.

        `answered` is called in the order of the calls. Where a marker has ended the transaction here while
        the answer was on its way, the answer is old: INVALID_TXN_STATE. Where this broker does not lead the
        partition as it did, it cannot know that, and the producer has to ask again: NOT_COORDINATOR.
        """
        shards, place = self._shards, addition.place
        leader = shards.leader_of(shards.topic, shards.index_of(addition.transactional_id))
        if leader is None or self._peers is None:
            answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        before = self._seen_of(addition.producer_id, place)

        def respond(code: ErrorCode) -> None:
            now = self._seen_of(addition.producer_id, place)
            if code is not ErrorCode.NONE:
                answered(code)
            elif before is None or now is None or now[:2] != before[:2]:
                answered(ErrorCode.NOT_COORDINATOR)
            else:
                answered(None if now == before else ErrorCode.INVALID_TXN_STATE)

        self._peers.ask(leader, ADD_PARTITIONS, addition, respond)

    def _seen_of(self, producer_id: int, place: TopicPartition) -> _Seen | None:
        partition = self._services.partitions.peek(*place)
        log = None if partition is None else partition.serving_log
        if partition is None or log is None:
            return None
        markers = log.producers.markers_of(producer_id)
        return _Seen(log, partition.leader_epoch, markers, self._markers.ending(place, producer_id))

    # -- transactions that are ending ---------------------------------------------------------------------

    def _when_ended(self, transactional_id: str, began_ms: int, action: Callable[[], None]) -> bool:
        """Do `action` when the last transaction may have ended; return False if that has taken too long.

        Its markers are on their way: a producer that had to ask again would wait much longer.
        """
        config, now_ms = self._services.current.config, self._services.clock.now_ms()
        retry_ms = now_ms + config.add_partitions_to_txn_retry_backoff_ms
        if retry_ms - began_ms > config.add_partitions_to_txn_retry_backoff_max_ms:
            return False
        waiting = self._waiting.setdefault(transactional_id, {})
        key = object()

        def due() -> None:
            del waiting[key]
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
            action()

        waiting[key] = due
        self._services.timers.set(key, retry_ms, due)
        return True

    def transaction_ended(self, transactional_id: str) -> None:
        """Try again now what waits for the end of this id's transaction."""
        for key, due in list(self._waiting.get(transactional_id, {}).items()):
            self._services.timers.cancel(key)
            due()
