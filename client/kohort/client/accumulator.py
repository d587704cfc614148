"""Records on their way out, collected into batches per partition until the sender takes them.

`append` may be called from any thread; the rest belongs to the sender's.
"""

import random
import threading
from collections import deque
from collections.abc import Sequence

import anyio
import msgspec

from kohort.client.config import ProducerConfig
from kohort.client.errors import BrokerError, KohortError
from kohort.client.partitioner import partition_for_key
from kohort.client.retry import monotonic_ms
from kohort.client.values import RecordMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import HEADER_BYTES, Compression, RecordBatchBuilder, max_record_bytes

Headers = Sequence[tuple[str, bytes | None]]


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A record as the user gave it; without a partition, the key chooses one."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Headers


class Batch:
    """Records of one partition that share one fate."""

    __slots__ = (
        "_data",
        "_event",
        "base_offset",
        "builder",
        "created_ms",
        "error",
        "is_done",
        "is_full",
        "log_append_ms",
        "not_before_ms",
        "partition",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, compression: Compression, now_ms: int) -> None:
        self.partition = partition
        self.builder = RecordBatchBuilder(compression=compression)
        self.created_ms = now_ms
        self.not_before_ms = 0
        self.size_bytes = HEADER_BYTES
        self.is_full = False
        self.is_done = False
        self.base_offset = -1
        self.log_append_ms = -1
        self.error: KohortError | None = None
        self._data: bytes | None = None
        self._event: anyio.Event | None = None

    def to_bytes(self) -> bytes:
        """Return the record batch, the same at every attempt."""
        if self._data is None:
            self._data = self.builder.build()
        return self._data

    def finish(self, error: KohortError | None = None) -> None:
        """Its fate is known: wake who waits for it."""
        self.error = error
        self.is_done = True
        self._data = None
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Return when its fate is known. In the sender's thread."""
        if not self.is_done:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def metadata_of(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return where the record at `index` went. Raises: KohortError if it did not arrive."""
        assert self.is_done
        if self.error is not None:
            raise self.error
        topic, partition = self.partition
        offset = -1 if self.base_offset < 0 else self.base_offset + index
        return RecordMetadata(
            topic, partition, offset, timestamp_ms if self.log_append_ms < 0 else self.log_append_ms
        )


class Appended:
    """A record that has its place in a batch; `wakes` tells that the sender has to look."""

    __slots__ = ("batch", "index", "timestamp_ms", "wakes")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int, wakes: bool) -> None:
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms
        self.wakes = wakes


class Accumulator:
    """The batches of all partitions, bounded by buffer_memory."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._compression = Compression[(config.compression_type or "none").upper()]
        self._lock = threading.Lock()
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._in_flight: set[TopicPartition] = set()
        self._buffered_bytes = 0
        self._sticky: dict[str, tuple[int, int]] = {}  # Partition, and the bytes that it got.
        self.flushes = 0  # How many wait for everything to be sent now.

    def append(self, record: Outgoing, partition_count: int) -> Appended | None:
        """Return the record's place, or None while there is no room for it.

        Raises: BrokerError for a record that is too large for any request.
        """
        size_bytes = max_record_bytes(record.key, record.value, record.headers)
        if size_bytes + HEADER_BYTES > self._config.max_request_size:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of {size_bytes} bytes for {record.topic!r};"
                f" max_request_size is {self._config.max_request_size}",
            )
        with self._lock:
            if self._buffered_bytes and self._buffered_bytes + size_bytes > self._config.buffer_memory:
                return None
            partition = record.partition
            if partition is None:
                partition = self._choose(record, partition_count, size_bytes)
            return self._add(TopicPartition(record.topic, partition), record, size_bytes)

    def _choose(self, record: Outgoing, partition_count: int, size_bytes: int) -> int:
        """Return the key's partition; without a key, one that stays until it has got a batch (KIP-794)."""
        if record.key is not None:
            return partition_for_key(record.key, partition_count)
        partition, sent_bytes = self._sticky.get(record.topic, (-1, 0))
        if partition < 0 or partition >= partition_count or sent_bytes >= self._config.batch_size:
            partition, sent_bytes = random.randrange(partition_count), 0
        self._sticky[record.topic] = (partition, sent_bytes + size_bytes)
        return partition

    def _add(self, partition: TopicPartition, record: Outgoing, size_bytes: int) -> Appended:
        queue = self._queues.setdefault(partition, deque())
        batch = queue[-1] if queue else None
        wakes = False
        if batch is None or batch.is_full or batch.size_bytes + size_bytes > self._config.batch_size:
            if batch is not None:
                batch.is_full = True
            batch = Batch(partition, self._compression, monotonic_ms())
            queue.append(batch)
            wakes = True  # There is a first one to wait linger_ms for, or a full one to be sent.
        index = batch.builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        batch.size_bytes += size_bytes
        self._buffered_bytes += size_bytes
        if batch.size_bytes >= self._config.batch_size:
            batch.is_full = wakes = True
        return Appended(batch, index, record.timestamp_ms, wakes)

    # The sender's side

    def take_ready(self, now_ms: int) -> list[Batch]:
        """Return the first batch of each partition that has none under way, if its time has come."""
        with self._lock:
            taken = []
            for partition, queue in self._queues.items():
                if partition in self._in_flight or not queue:
                    continue
                if now_ms >= self._due_ms(queue):
                    batch = queue.popleft()
                    batch.is_full = True
                    self._in_flight.add(partition)
                    taken.append(batch)
            return taken

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long until the next batch is ready, None if nothing waits for time to pass."""
        with self._lock:
            due = [
                self._due_ms(queue)
                for partition, queue in self._queues.items()
                if queue and partition not in self._in_flight
            ]
        return max(0, min(due) - now_ms) if due else None

    def _due_ms(self, queue: deque[Batch]) -> int:
        batch = queue[0]
        if batch.is_full or self.flushes or len(queue) > 1:
            return batch.not_before_ms
        return max(batch.not_before_ms, batch.created_ms + self._config.linger_ms)

    def put_back(self, batch: Batch, not_before_ms: int) -> None:
        """Let a batch be tried again, before everything else of its partition."""
        with self._lock:
            batch.not_before_ms = not_before_ms
            self._queues[batch.partition].appendleft(batch)
            self._in_flight.discard(batch.partition)

    def release(self, batch: Batch) -> None:
        """A batch is done with: its partition and its memory are free."""
        with self._lock:
            self._in_flight.discard(batch.partition)
            self._buffered_bytes -= batch.size_bytes - HEADER_BYTES

    def unfinished(self) -> list[Batch]:
        """Return the batches that wait to be sent; those under way are the sender's."""
        with self._lock:
            return [batch for queue in self._queues.values() for batch in queue]
