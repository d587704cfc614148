"""Records of one partition that travel together, and the promise of what became of each."""

import logging
import threading
from collections.abc import Callable, Sequence

import anyio
import msgspec

from kohort.client.errors import KohortError
from kohort.client.values import RecordMetadata, TopicPartition
from kohort.protocol.records import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Compression,
    RecordFields,
    compress,
    encode_records,
    max_record_bytes,
    seal_batch,
)

logger = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]

_LOCK = threading.Lock()  # Around the moment in which a batch's fate becomes known, of all batches.


class Codec(msgspec.Struct, frozen=True):
    """How batches are compressed; without a level, as the codec has it."""

    compression: Compression = Compression.NONE
    level: int | None = None


class ProducerIdentity(msgspec.Struct, frozen=True):
    """What the broker knows an idempotent producer by."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NOBODY = ProducerIdentity()


class Batch:
    """Records of one partition that share one fate, unless the batch has to be split.

    It grows in the user's thread under the accumulator's lock; once it is closed it belongs to the sender.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_payload",
        "_thread_event",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "error",
        "identity",
        "is_done",
        "log_append_ms",
        "partition",
        "parts",
        "record_count",
        "reserved_bytes",
        "rows",
        "sent_bytes",
        "sequence_was_reset",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, created_ms: int) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.rows: list[RecordFields] = []
        self.record_count = 0  # Set when it is closed.
        self.size_bytes = HEADER_BYTES  # At most, before compression.
        self.sent_bytes = 0  # As it was sent last.
        self.reserved_bytes = 0  # Of buffer_memory, until its fate is known.
        self.attempts = 0
        self.identity = NOBODY
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.is_done = False
        self.error: KohortError | None = None
        self.base_offset = -1
        self.log_append_ms = -1
        self.parts: tuple[Batch, ...] = ()
        self._payload: bytes | None = None
        self._event: anyio.Event | None = None
        self._thread_event: threading.Event | None = None
        self._callbacks: list[tuple[int, Callable[[], None]]] | None = None

    @property
    def has_sequence(self) -> bool:
        """Whether it was given its place among the producer's batches: it was sent at least once."""
        return self.base_sequence != NO_SEQUENCE

    def close(self) -> None:
        """Take no more records."""
        self.record_count = len(self.rows)

    def encode(self, codec: Codec) -> bytes:
        """Return its records as they travel; that is done once, whatever number the batch goes by."""
        if self._payload is None:
            self._payload = compress(codec.compression, encode_records(self.rows), codec.level)
        return self._payload

    def to_bytes(self, codec: Codec) -> bytes:
        """Return the record batch."""
        sealed = seal_batch(
            self.encode(codec),
            record_count=self.record_count,
            base_timestamp_ms=self.rows[0][0],
            max_timestamp_ms=max([row[0] for row in self.rows]),
            compression=codec.compression,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self.base_sequence,
        )
        self.sent_bytes = len(sealed)
        return sealed

    # Its fate

    def finish(self, error: KohortError | None = None) -> None:
        """Its fate is known: wake who waits for it, and call who wanted to be called."""
        with _LOCK:
            self.error = error
            self.is_done = True
            callbacks, self._callbacks = self._callbacks, None
        self._payload = None
        self.rows = []
        self._wake()
        for _, callback in callbacks or ():
            try:
                callback()
            except Exception:  # It is the user's own, and the next batch must not suffer from it.
                logger.exception("a callback of a record for %s failed", self.partition)

    def split(self) -> "tuple[Batch, Batch]":
        """Return two halves, which carry its records, its sequence and whoever waits for it."""
        middle = self.record_count // 2
        first, second = self._part(0, middle), self._part(middle, self.record_count)
        first.reserved_bytes = self.reserved_bytes // 2
        second.reserved_bytes = self.reserved_bytes - first.reserved_bytes
        with _LOCK:
            self.parts = (first, second)
            for index, callback in self._callbacks or ():
                part, place = self.locate(index)
                part.callbacks.append((place, callback))
            self._callbacks = None
        self.rows = []
        self._payload = None
        self._wake()
        return first, second

    def _part(self, start: int, stop: int) -> "Batch":
        part = Batch(self.partition, self.created_ms)
        part.rows = self.rows[start:stop]
        part.size_bytes += sum(max_record_bytes(*row[1:]) for row in part.rows)
        part.close()
        if self.has_sequence:
            part.identity = self.identity
            part.base_sequence = next_sequence(self.base_sequence, start)
        return part

    def locate(self, index: int) -> "tuple[Batch, int]":
        """Return the batch that carries a record by now, and its place there."""
        batch = self
        while batch.parts:
            first, second = batch.parts
            if index < first.record_count:
                batch = first
            else:
                batch, index = second, index - first.record_count
        return batch, index

    async def wait(self) -> None:
        """Return when its fate is known, or it was split. In the sender's thread."""
        if not self.is_done and not self.parts:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def wait_in_thread(self, timeout_s: float | None) -> bool:
        """Return whether its fate was known, or it was split, in time. In any other thread."""
        with _LOCK:
            if self.is_done or self.parts:
                return True
            event = self._thread_event = self._thread_event or threading.Event()
        return event.wait(timeout_s)

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

    @property
    def callbacks(self) -> list[tuple[int, Callable[[], None]]]:
        """Who is called in the sender's thread when its fate is known, by the place of the record."""
        if self._callbacks is None:
            self._callbacks = []
        return self._callbacks

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()
        if self._thread_event is not None:
            self._thread_event.set()


class Appended(msgspec.Struct, frozen=True, gc=False):
    """A record that has its place in a batch: what the two shells make their deliveries of."""

    batch: Batch
    index: int
    timestamp_ms: int

    @property
    def is_done(self) -> bool:
        """Whether the record's fate is known."""
        return self.batch.locate(self.index)[0].is_done

    def known_metadata(self) -> RecordMetadata:
        """Return where the record was written, once its fate is known. Raises: KohortError if it was not."""
        batch, index = self.batch.locate(self.index)
        return batch.metadata_of(index, self.timestamp_ms)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the sender's thread when the record's fate is known; at once if it is."""
        with _LOCK:
            batch, index = self.batch.locate(self.index)
            if not batch.is_done:
                batch.callbacks.append((index, callback))
                return
        callback()


def next_sequence(sequence: int, record_count: int) -> int:
    """Return the sequence so many records later; behind 2147483647 comes 0."""
    return (sequence + record_count) & 0x7FFFFFFF
