"""The producer's background: sends batches to the leaders of their partitions, up to the limit in flight.

Source: org.apache.kafka.clients.producer.internals.Sender.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from kohort.client.accumulator import Accumulator
from kohort.client.batch import Batch, Codec
from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.config import ProducerConfig
from kohort.client.connection import Connection
from kohort.client.errors import BrokerError, KohortError, SerializationError
from kohort.client.identity import Identifier, TransactionalIdentifier
from kohort.client.outcomes import Outcomes
from kohort.client.partition_queue import PartitionQueue
from kohort.client.partitioner import Partitioner
from kohort.client.produce_messages import NAMES_IN_PRODUCE, Load, QueuedBatch, produce_request, read_answers
from kohort.client.producer_metrics import ProducerMetrics
from kohort.client.relocation import Relocation
from kohort.client.request_parts import PARTITIONS_PER_REQUEST
from kohort.client.retry import monotonic_ms
from kohort.client.signal import Signal
from kohort.client.values import Node
from kohort.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from kohort.protocol.records import Compression
from kohort.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kohort.client.transactions import Transactions

logger = logging.getLogger(__name__)

EXPIRY_CHECK_MS = 100
NEVER_MS = 1 << 62
NOTHING: frozenset[str] = frozenset()


class _Broker(msgspec.Struct):
    """A broker as the sender sees it: how many of its answers are awaited, and whether it can be reached."""

    node_id: int
    in_flight: int = 0
    is_connecting: bool = False
    throttled_until_ms: int = 0
    last_error: KohortError | None = None


class Sender:
    """Sends the batches of the accumulator, from one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        metrics: ProducerMetrics,
        need_metadata: Callable[[str], None],
        *,
        partitioner: Partitioner | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._metrics = metrics
        self._need_metadata = need_metadata
        self.transactions: Transactions | None = None
        if config.transactional_id is None:
            self.identifier = Identifier(
                cluster, is_idempotent=config.enable_idempotence, on_change=self.wake
            )
        else:
            from kohort.client import transactions  # noqa: PLC0415  # Few producers have any.

            identifier = TransactionalIdentifier(cluster, on_change=self.wake)
            self.identifier = identifier
            self.transactions = transactions.Transactions(cluster, config, accumulator, identifier, self.wake)
        self._outcomes = Outcomes(
            config, accumulator, self.identifier, metrics, need_metadata, warnings=cluster.warnings
        )
        self._relocation = Relocation(
            accumulator, partitioner, self._outcomes.give_up_unsent, self._outcomes.drop
        )
        if self.transactions is not None:
            self._outcomes.on_failed = self.transactions.failed
        self._codec = Codec(
            Compression[(config.compression_type or "none").upper()], config.compression_level
        )
        self._brokers: dict[int, _Broker] = {}
        self._in_flight: dict[Batch, PartitionQueue] = {}
        self._held_back = NOTHING  # Topics of which records may have to be placed again, before all others.
        self._wake = Signal()
        self._room = Signal()
        self._sleeps_until_ms = 0
        self._next_expiry_check_ms = 0

    def wake(self) -> None:
        """Check again for ready batches. In the loop's thread."""
        self._wake.set()

    async def wait_for_room(self, timeout_ms: float) -> None:
        """Return when some memory has become free, or at the timeout."""
        await self._room.wait(timeout_ms)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            wait_ms = self.step()
            self._sleeps_until_ms = NEVER_MS if wait_ms is None else monotonic_ms() + wait_ms
            await self._wake.wait(wait_ms)

    async def flush(self) -> None:
        """Send everything appended so far, and return when the results are known."""
        self._accumulator.flushes += 1
        self.wake()
        try:
            unfinished = [each.batch for each in self.unfinished()]
            while unfinished:
                batch = unfinished.pop()
                await batch.wait()
                unfinished += batch.parts
        finally:
            self._accumulator.flushes -= 1

    def unfinished(self) -> list[QueuedBatch]:
        """Return every batch without a known result."""
        in_flight = [QueuedBatch(queue, batch) for batch, queue in self._in_flight.items()]
        return [*in_flight, *(QueuedBatch(*each) for each in self._accumulator.waiting())]

    def abandon(self, error: KohortError) -> None:
        """Give up all unwritten batches."""
        for queued_batch in self.unfinished():
            self._outcomes.abandon(queued_batch, error)

    # One step: everything that can be sent now is sent

    def step(self) -> int | None:
        """Send due batches; return when there may be more, None if nothing waits for time."""
        self._accumulator.is_woken = self._accumulator.has_news = False
        # Before the check: a later append wakes the sender again.
        now_ms = monotonic_ms()
        self._expire(now_ms)
        self._held_back = NOTHING
        if self._accumulator.has_vanished:  # Before anything is sent: the first appended is sent first.
            self._held_back = self._relocation.run()
        if self.identifier.failure is not None:
            self._fail_all(self.identifier.failure)
        if self.transactions is not None and (refusal := self.transactions.refusal) is not None:
            self._fail_all(refusal)
        while True:
            due, wait_ms = self._accumulator.due(now_ms)
            if not due or not self.identifier.is_known() or not self._send_due(due, now_ms):
                break
        self._accumulator.wakes = all(
            each.in_flight < self._config.max_in_flight for each in self._brokers.values()
        )
        return self._wait_ms(now_ms, wait_ms, has_waiting=bool(due))

    def _wait_ms(self, now_ms: int, wait_ms: int | None, *, has_waiting: bool) -> int | None:
        """Return when to check again, whatever else happens."""
        at_ms = NEVER_MS if wait_ms is None else now_ms + wait_ms
        if has_waiting or self._in_flight:  # They may expire.
            at_ms = min(at_ms, now_ms + max(1, min(1_000, self._config.delivery_timeout_ms // 4)))
        for broker in self._brokers.values():
            if broker.throttled_until_ms > now_ms:
                at_ms = min(at_ms, broker.throttled_until_ms)
        return None if at_ms == NEVER_MS else at_ms - now_ms

    def _send_due(self, due: list[PartitionQueue], now_ms: int) -> bool:
        """Send one batch of each partition that may; return whether there was any."""
        is_any = False
        loads: dict[int, tuple[Load, int]] = {}
        for queue in due:
            broker = self._broker_of(queue, now_ms)
            if broker is None or not self._may_send(queue):
                continue
            size_bytes = queue.batches[0].size_bytes
            load, load_bytes = loads.get(broker.node_id, ([], 0))
            if load and load_bytes + size_bytes > self._config.max_request_size:
                continue
            if len(load) >= PARTITIONS_PER_REQUEST:
                continue
            queued_batch = QueuedBatch(queue, self._accumulator.take(queue))
            is_any = True
            if not queued_batch.batch.record_count:  # An exception kept its first record out.
                self._outcomes.drop(queued_batch)
                continue
            if self._is_encoded(queued_batch):
                if self._config.enable_idempotence and not queued_batch.batch.has_sequence:
                    # At once: to look whether another partition's may go can raise the epoch.
                    queue.sequences.assign(queued_batch.batch, self.identifier.identity)
                load.append(queued_batch)
                loads[broker.node_id] = (load, load_bytes + size_bytes)
        for node_id, (load, _) in loads.items():
            self._send(self._brokers[node_id], load)
        return is_any

    def _is_encoded(self, queued_batch: QueuedBatch) -> bool:
        """Whether the batch is encoded by now: an error in its records fails only this batch.

        Before it has a sequence, so that none is missing to the partition's next batch.
        """
        try:
            queued_batch.batch.encode(self._codec)
        except Exception as error:
            logger.exception("a batch for %s can't be encoded", queued_batch.batch.partition)
            failure = SerializationError(f"a record of its batch can't be encoded: {error!r}")
            failure.__cause__ = error
            self._outcomes.abandon(queued_batch, failure)
            return False
        return True

    def _broker_of(self, queue: PartitionQueue, now_ms: int) -> _Broker | None:
        """Return the partition's leader if something can be sent to it right now."""
        try:
            node_id = self._cluster.leader(queue.partition).leader
        except BrokerError as error:
            self._cluster.warnings.say(queue.partition, error, after_ms=PATIENCE_MS)
            queue.last_error = error
            self._need_metadata(queue.partition.topic)
            return None
        broker = self._brokers.setdefault(node_id, _Broker(node_id))
        if self._cluster.open_connection(node_id) is None:
            queue.last_error = broker.last_error
            if not broker.is_connecting:
                broker.is_connecting = True
                self._cluster.tasks.start_soon(self._connect, broker, queue.partition.topic)
            return None
        if broker.in_flight >= self._config.max_in_flight or now_ms < broker.throttled_until_ms:
            return None
        return broker

    def _may_send(self, queue: PartitionQueue) -> bool:
        """Whether the order of the partition's batches allows the next one."""
        if self._held_back and queue.partition.topic in self._held_back:
            return False
        if not self._config.enable_idempotence:
            return self._config.max_in_flight > 1 or not queue.in_flight
        self._outcomes.resolve(queue)
        if not queue.batches or queue.sequences.holds_back(queue.batches[0], self.identifier.identity):
            return False
        return self.transactions is None or self.transactions.may_send(queue.partition)

    async def _connect(self, broker: _Broker, topic: str) -> None:
        try:
            await self._cluster.connection(broker.node_id)
            broker.last_error = None
        except KohortError as error:
            broker.last_error = error
            logger.debug("producing: %s", error)
            self._need_metadata(topic)  # Its partitions may have other leaders by now.
        finally:
            broker.is_connecting = False
            self.wake()

    def _send(self, broker: _Broker, load: Load) -> None:
        connection = self._cluster.open_connection(broker.node_id)
        assert connection is not None
        for queue, batch in load:
            batch.attempts += 1
            queue.in_flight.append(batch)
            self._in_flight[batch] = queue
        try:
            self._start(connection, broker, load)
        except KohortError as error:
            self._failed(load, error, was_sent=False)

    def _start(self, connection: Connection, broker: _Broker, load: Load) -> None:
        ids = {queue.partition.topic: queue.topic_id for queue, _ in load}
        names_only = ZERO_UUID in ids.values()
        highest = NAMES_IN_PRODUCE if names_only else None
        if self.transactions is not None:
            highest = self.transactions.produce_highest or highest
        request = produce_request(load, ids, self._codec, self._config)
        self._metrics.sent(load)
        if self._config.required_acks == 0:
            self._start_unanswered(connection, broker, load, request, highest)
            return

        def on_done(answer: ProduceResponse | KohortError) -> None:
            broker.in_flight -= 1
            if isinstance(answer, KohortError):
                self._failed(load, answer)
            else:
                self._answered(broker, load, ids, answer)
            self._go_on()

        connection.start(
            request, ProduceResponse, on_done, timeout_ms=self._config.request_timeout_ms, highest=highest
        )
        broker.in_flight += 1

    def _start_unanswered(
        self,
        connection: Connection,
        broker: _Broker,
        load: Load,
        request: ProduceRequest,
        highest: int | None,
    ) -> None:
        """Send batches without answers: each counts in memory and max_in_flight until it was sent."""

        def on_sent(error: KohortError | None) -> None:
            broker.in_flight -= 1
            if error is not None:
                self._failed(load, error)
            else:
                for queued_batch in load:
                    self._in_flight.pop(queued_batch.batch, None)
                    self._outcomes.written(queued_batch, -1, -1)
            self._go_on()

        connection.send(request, on_sent, highest=highest)
        broker.in_flight += 1

    # Results of requests

    def _answered(self, broker: _Broker, load: Load, ids: dict[str, UUID], answer: ProduceResponse) -> None:
        now_ms = monotonic_ms()
        broker.last_error = None
        broker.throttled_until_ms = now_ms + answer.throttle_time_ms if answer.throttle_time_ms else 0
        self._metrics.throttled(answer.throttle_time_ms)
        for queued_batch, each in read_answers(load, ids, answer):
            self._in_flight.pop(queued_batch.batch, None)
            if each is not None and each.current_leader.leader_id >= 0:
                self._learn_leader(queued_batch, each, answer)
            self._outcomes.answered(queued_batch, each)

    def _learn_leader(
        self, queued_batch: QueuedBatch, answer: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        """Apply the present leader of a partition: the batch need not wait for metadata (KIP-951)."""
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        leader = answer.current_leader
        self._cluster.metadata.learn_leader(
            queued_batch.queue.partition, leader.leader_id, leader.leader_epoch, nodes
        )

    def _failed(self, load: Load, error: KohortError, *, was_sent: bool = True) -> None:
        for queued_batch in load:
            self._in_flight.pop(queued_batch.batch, None)
            self._outcomes.refused(queued_batch, error, was_sent=was_sent)

    def _go_on(self) -> None:
        """Send more at once, and let `run` know if it would sleep for too long now."""
        wait_ms = self.step()
        if wait_ms is not None and monotonic_ms() + wait_ms < self._sleeps_until_ms:
            self.wake()
        if self._accumulator.starved and self._accumulator.has_room():
            self._room.set()

    # What waits too long

    def _expire(self, now_ms: int) -> None:
        if now_ms < self._next_expiry_check_ms:
            return
        self._next_expiry_check_ms = now_ms + min(EXPIRY_CHECK_MS, self._config.delivery_timeout_ms // 4)
        before_ms = now_ms - self._config.delivery_timeout_ms
        late = [
            QueuedBatch(queue, each)
            for each, queue in self._in_flight.items()
            if each.created_ms <= before_ms
        ]
        late += (QueuedBatch(*each) for each in self._accumulator.expired(now_ms))
        for queued_batch in late:
            self._outcomes.expire(queued_batch, queued_batch.queue.last_error or self.identifier.last_error)

    def _fail_all(self, error: KohortError) -> None:
        while due := self._accumulator.waiting():
            for queue, _ in due:
                batch = self._accumulator.take(queue)
                self._outcomes.abandon(QueuedBatch(queue, batch), error)
