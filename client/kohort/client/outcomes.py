"""What becomes of a batch: written, refused and sent again, split, given up.

Source: org.apache.kafka.clients.producer.internals.Sender.completeBatch, TransactionManager.canRetry.
"""

import logging
from collections.abc import Callable

from kohort.client.accumulator import Accumulator
from kohort.client.batch import NOBODY, Batch
from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    BrokerError,
    DeliveryTimeoutError,
    KohortError,
    NetworkError,
    ProducerFencedError,
)
from kohort.client.identity import Identifier
from kohort.client.partition_queue import PartitionQueue
from kohort.client.produce_messages import QueuedBatch
from kohort.client.producer_metrics import ProducerMetrics
from kohort.client.retry import backoff_ms, monotonic_ms
from kohort.client.warnings import Warnings
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.produce import PartitionProduceResponse

logger = logging.getLogger(__name__)

ENDING_BACKOFF_MS = 2  # The markers of a transaction take about this long.
LASTING_MS = 2_000  # A new leader is found sooner.
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_SEQUENCE_ERRORS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_METADATA_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""After these errors the leader may be another broker."""
_NOT_WRITTEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors of a broker before it writes.

After others, such as NOT_LEADER_OR_FOLLOWER, the batch may be written.
"""


class Outcomes:
    """Decides for each batch that was sent, and for those that waited too long."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        identifier: Identifier,
        metrics: ProducerMetrics,
        need_metadata: Callable[[str], None],
        *,
        warnings: Warnings,
    ) -> None:
        self._warnings = warnings
        self._config = config
        self._accumulator = accumulator
        self._identifier = identifier
        self._metrics = metrics
        self._need_metadata = need_metadata
        self.on_failed: Callable[[KohortError], None] = lambda error: None
        """Called for each batch that was not written."""

    def written(self, queued_batch: QueuedBatch, base_offset: int, log_append_ms: int) -> None:
        """The broker has the batch; without an offset it had it before, and forgot where."""
        queue, batch = queued_batch
        queue.failures = 0
        queue.last_error = None
        queue.sequences.acknowledge(batch, base_offset)
        self._landed(queued_batch)
        if not batch.is_done:
            batch.base_offset = base_offset
            batch.log_append_ms = log_append_ms
            self._finish(batch, None)

    def answered(self, queued_batch: QueuedBatch, answer: PartitionProduceResponse | None) -> None:
        """Apply the broker's result of a batch."""
        queue, batch = queued_batch
        if answer is None:
            self.refused(queued_batch, NetworkError(f"the broker's answer leaves {queue.partition} out"))
        elif not answer.error_code:
            self.written(queued_batch, answer.base_offset, answer.log_append_time_ms)
        elif answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.written(queued_batch, -1, -1)
        elif (
            answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.is_done
        ):
            self._split(queued_batch)
        else:
            self.refused(queued_batch, self._refusal(queued_batch, answer), answer.log_start_offset)

    def refused(
        self,
        queued_batch: QueuedBatch,
        error: KohortError,
        log_start_offset: int = -1,
        *,
        was_sent: bool = True,
    ) -> None:
        """Handle a batch that was not written, as far as known: it is sent again if that may help."""
        queue, batch = queued_batch
        if was_sent and error.code not in _NOT_WRITTEN:
            batch.may_be_written = True
        self._landed(queued_batch)
        queue.last_error = error
        if error.code in _METADATA_ERRORS:
            self._need_metadata(queue.partition.topic)
        if batch.is_done:
            return
        sequence_broken = batch.has_sequence and error.code in _SEQUENCE_ERRORS
        if not (error.retriable or sequence_broken) or batch.attempts > self._config.retries:
            self._give_up(queued_batch, error)
            return
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:  # The one before is being ended: no trouble.
            self._send_again_soon(queued_batch)
            return
        if not isinstance(error, NetworkError):  # Already logged.
            what = f"writing to {queue.partition} is tried again: {error}"
            self._warnings.say(queue.partition, what, after_ms=LASTING_MS)
        if sequence_broken and queue.sequences.is_broken_by(batch, error.code, log_start_offset):
            if self._identifier.is_transactional:
                self._give_up(queued_batch, error)
                return
            self._restart(queue)
        queue.not_before_ms = monotonic_ms() + int(
            backoff_ms(queue.failures, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        )
        queue.failures += 1
        self._metrics.retried(batch)
        self._accumulator.put_back(queue, batch)

    def _send_again_soon(self, queued_batch: QueuedBatch) -> None:
        queue, batch = queued_batch
        wait_ms = backoff_ms(queue.failures, ENDING_BACKOFF_MS, self._config.retry_backoff_ms)
        queue.not_before_ms = monotonic_ms() + int(wait_ms)
        queue.failures += 1
        self._metrics.retried(batch)
        self._accumulator.put_back(queue, batch)

    def expire(self, queued_batch: QueuedBatch, reason: KohortError | None) -> None:
        """A batch has had delivery_timeout_ms: give it up, wherever it is."""
        queue, batch = queued_batch
        if batch.is_done:
            return
        error = DeliveryTimeoutError(
            f"{batch.record_count} record(s) for {batch.partition} were not written within"
            f" delivery_timeout_ms ({self._config.delivery_timeout_ms});"
            f" last: {reason or 'the broker has not answered yet'}"
        )
        error.__cause__ = reason
        if batch.has_sequence:  # It may have been written: later batches wait until that is known.
            queue.sequences.forget(batch)
            queue.sequences.is_unresolved = True
        self._metrics.failed(batch)
        self._lost(batch, error)
        self._finish(batch, error)

    def abandon(self, queued_batch: QueuedBatch, error: KohortError) -> None:
        """Give a batch up: the producer closes, or can never send."""
        queued_batch.queue.sequences.forget(queued_batch.batch)
        if not queued_batch.batch.is_done:
            self._metrics.failed(queued_batch.batch)
            self._finish(queued_batch.batch, error)

    def drop(self, queued_batch: QueuedBatch) -> None:
        """Drop a batch without records."""
        self._finish(queued_batch.batch, None)

    def resolve(self, queue: PartitionQueue) -> None:
        """With nothing of a partition in flight any more, find out whether an expired batch was written.

        If its log is a new one, continue there.
        """
        sequences = queue.sequences
        if sequences.has_new_log and not queue.in_flight:
            self._begin_new_log(queue)
        if sequences.is_unresolved and not sequences.outstanding and not queue.in_flight:
            sequences.is_unresolved = False
            if sequences.has_gap():
                self._restart(queue)

    def give_up_unsent(self, queued_batch: QueuedBatch, error: KohortError) -> None:
        """A batch must not be sent to where its partition, or its log, is now."""
        queue, batch = queued_batch
        if batch.has_sequence:  # Its number is missing to the next one.
            queue.sequences.forget(batch)
            queue.sequences.is_unresolved = True
        self._metrics.failed(batch)
        self._lost(batch, error)
        self._finish(batch, error)

    def _give_up(self, queued_batch: QueuedBatch, error: KohortError) -> None:
        queue, batch = queued_batch
        queue.sequences.forget(batch)
        if batch.has_sequence:
            if batch.attempts <= self._config.retries:
                self._restart(queue)  # Later batches must not wait for it.
            else:
                queue.sequences.is_unresolved = True
        self._metrics.failed(batch)
        self._lost(batch, error)
        self._finish(batch, error)

    def _lost(self, batch: Batch, error: KohortError) -> None:
        """Log it: a caller that never asks for the result would not notice."""
        what = str(error)
        if not isinstance(error, DeliveryTimeoutError):
            what = f"{batch.record_count} record(s) for {batch.partition} were given up: {error}"
        self._warnings.say(("given up", batch.partition), what)

    def _restart(self, queue: PartitionQueue) -> None:
        identity = self._identifier.raise_epoch()
        if identity == NOBODY:
            return  # A new id is asked for; the partition takes it when nothing is in flight.
        logger.debug("%s begins at sequence 0 of epoch %d", queue.partition, identity.epoch)
        queue.sequences.restart(identity)

    def _begin_new_log(self, queue: PartitionQueue) -> None:
        for batch in queue.sequences.begin_new_log():
            self._accumulator.remove(queue, batch)
            error = BrokerError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {batch.partition.topic!r} was made anew. The batch may be written under another"
                " sequence, so it is not sent again",
            )
            self.give_up_unsent(QueuedBatch(queue, batch), error)

    def _split(self, queued_batch: QueuedBatch) -> None:
        queue, batch = queued_batch
        self._landed(queued_batch)
        parts = batch.split()
        half_bytes = max(self._config.batch_size, batch.size_bytes // 2)
        queue.largest_bytes = min(queue.largest_bytes, half_bytes)  # It need not be refused again and again.
        logger.debug(
            "%s: %d records are too large for the broker; split", queue.partition, batch.record_count
        )
        self._metrics.was_split()
        if batch.has_sequence:
            queue.sequences.replace(batch, parts)
        for part in reversed(parts):
            self._accumulator.put_back(queue, part)

    def _landed(self, queued_batch: QueuedBatch) -> None:
        if queued_batch.batch in queued_batch.queue.in_flight:
            queued_batch.queue.in_flight.remove(queued_batch.batch)

    def _finish(self, batch: Batch, error: KohortError | None) -> None:
        self._accumulator.release(batch)
        if error is not None:
            self.on_failed(error)
        batch.finish(error)

    def _refusal(self, queued_batch: QueuedBatch, answer: PartitionProduceResponse) -> BrokerError:
        said = answer.error_message or f"partition {queued_batch.queue.partition}"
        if self._identifier.is_transactional and answer.error_code in FENCED:
            return ProducerFencedError(
                answer.error_code,
                f"{said}: another producer has the transactional id {self._config.transactional_id!r} by now,"
                f" or transaction_timeout_ms ({self._config.transaction_timeout_ms}) is over",
            )
        return BrokerError(answer.error_code, said)
