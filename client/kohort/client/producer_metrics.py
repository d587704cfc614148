"""A producer's metrics, updated for each batch or request and never for each record.

Source: org.apache.kafka.clients.producer.internals.SenderMetricsRegistry, under whose names it is shown.
"""

from kohort.client.accumulator import Accumulator
from kohort.client.batch import Batch
from kohort.client.config import ProducerConfig
from kohort.client.metrics import Metrics
from kohort.client.produce_messages import Load
from kohort.client.retry import monotonic_ms

GROUP = "producer-metrics"


class ProducerMetrics:
    """The sensors of one producer."""

    def __init__(self, registry: Metrics, accumulator: Accumulator, config: ProducerConfig) -> None:
        registry.value(
            GROUP,
            "buffer-available-bytes",
            lambda: config.buffer_memory - accumulator.buffered_bytes,
        )
        registry.value(GROUP, "buffer-total-bytes", lambda: config.buffer_memory)
        registry.value(GROUP, "waiting-threads", lambda: accumulator.starved)
        self._record_send = registry.meter(GROUP, "record-send")
        self._byte = registry.meter(GROUP, "byte")
        self._record_retry = registry.meter(GROUP, "record-retry")
        self._record_error = registry.meter(GROUP, "record-error")
        self._batch_split = registry.meter(GROUP, "batch-split")
        self._batch_size = registry.gauge(GROUP, "batch-size")
        self._records_per_request = registry.gauge(GROUP, "records-per-request")
        self._record_queue_time = registry.gauge(GROUP, "record-queue-time")
        self._compression_rate = registry.gauge(GROUP, "compression-rate")
        self._throttle_time = registry.gauge(GROUP, "produce-throttle-time")

    def sent(self, load: Load) -> None:
        """A request with these batches goes out."""
        now_ms = monotonic_ms()
        records = 0
        for _, batch in load:
            records += batch.record_count
            self._byte.record(batch.sent_bytes)
            self._batch_size.record(batch.sent_bytes)
            self._compression_rate.record(batch.sent_bytes / batch.size_bytes)
            self._record_queue_time.record(now_ms - batch.created_ms)
        self._record_send.record(records)
        self._records_per_request.record(records)

    def throttled(self, throttle_time_ms: int) -> None:
        """A broker has answered with this throttle time."""
        self._throttle_time.record(throttle_time_ms)

    def retried(self, batch: Batch) -> None:
        """A batch will be sent again."""
        self._record_retry.record(batch.record_count)

    def failed(self, batch: Batch) -> None:
        """A batch was given up."""
        self._record_error.record(batch.record_count)

    def was_split(self) -> None:
        """A batch was too large for the broker."""
        self._batch_split.record()
