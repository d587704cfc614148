"""Records of one partition that travel together, and the promise of what became of each."""

import logging
from _thread import TIMEOUT_MAX, LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import msgspec

from kohort.client.errors import KohortError
from kohort.client.home_loop import HomeLoop
from kohort.client.values import RecordMetadata, TopicPartition
from kohort.protocol.records import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Compression,
    Record,
    RecordWriter,
    compress,
    iterate_records,
    max_record_bytes,
    seal_batch,
)

logger = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]
PLAIN_RECORD_BYTES = 14
"""The bytes of a record without key and headers, below a megabyte, besides its value."""


class Codec(msgspec.Struct, frozen=True):
    """How batches are compressed; without a level, as the codec has it."""

    compression: Compression = Compression.NONE
    level: int | None = None


class ProducerIdentity(msgspec.Struct, frozen=True):
    """The identity of an idempotent producer at the broker."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    is_transactional: bool = False


NOBODY = ProducerIdentity()


class Batch:
    """Records of one partition that share one fate, unless the batch has to be split, or placed again.

    It grows in the user's thread under the accumulator's lock; once it is closed it belongs to the sender.
    Other threads that wait for its result register first and check then, so that they hold no lock that
    the sender could need: a signal handler may flush at any time.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_payload",
        "_places",
        "_waiting",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "error",
        "has_other_number",
        "home",
        "identity",
        "is_done",
        "is_due",
        "log_append_ms",
        "may_be_written",
        "partition",
        "parts",
        "pinned",
        "records",
        "reserved_bytes",
        "sent_bytes",
        "sequence_was_reset",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, created_ms: int) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.home: HomeLoop | None = None  # The loop alone in which tasks may wait for it.
        self.records = RecordWriter()
        self.size_bytes = HEADER_BYTES  # At most, before compression.
        self.sent_bytes = 0  # As it was sent last.
        self.reserved_bytes = 0  # Its share of buffer_memory, until its result is known.
        self.attempts = 0
        self.may_be_written = False  # An attempt ended without an answer, so that it may be written.
        self.has_other_number = False  # It may be written under a sequence that it does not have any more.
        self.pinned: list[int] = []  # Which of its records the user sent to this very partition.
        self.identity = NOBODY
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.is_due = False  # It is large enough for a request, and does not wait.
        self.is_done = False
        self.error: KohortError | None = None
        self.base_offset = -1
        self.log_append_ms = -1
        self.parts: tuple[Batch, ...] = ()
        self._places: list[tuple[Batch, int]] = []  # Where each record went, if not into halves.
        self._payload: bytes | None = None
        self._event: anyio.Event | None = None
        self._waiting: list[LockType] = []  # Threads, each in a lock that it holds itself.
        self._callbacks: deque[_Callback] = deque()

    @property
    def has_sequence(self) -> bool:
        """Whether it has sequence numbers: it was sent at least once."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def record_count(self) -> int:
        """How many records it has."""
        return self.records.count

    def encode(self, codec: Codec) -> bytes:
        """Return its encoded records; they are encoded once, for any sequence."""
        if self._payload is None:
            self._payload = compress(codec.compression, self.records.payload(), codec.level)
        return self._payload

    def to_bytes(self, codec: Codec) -> bytes:
        """Return the record batch."""
        sealed = self._sealed(self.encode(codec), codec.compression)
        self.sent_bytes = len(sealed)
        return sealed

    def _sealed(self, payload: bytes, compression: Compression) -> bytes:
        return seal_batch(
            payload,
            record_count=self.records.count,
            base_timestamp_ms=self.records.base_timestamp_ms,
            max_timestamp_ms=self.records.max_timestamp_ms,
            compression=compression,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self.base_sequence,
            is_transactional=self.identity.is_transactional,
        )

    # Its fate

    def finish(self, error: KohortError | None = None) -> None:
        """Wake the waiters and call the callbacks: the result is known."""
        self.error = error
        self.is_done = True
        self._let_go()
        self._wake()
        while (told := self._next_callback()) is not None:
            try:
                told.call()
            except Exception:  # It is the user's own, and the next batch must not suffer from it.
                logger.exception("a callback of a record for %s failed", self.partition)

    def give_up_in_fork(self, error: KohortError) -> None:
        """In a forked process only the parent knows the result: wake the waiters, and call no callback."""
        self._callbacks.clear()
        self._event = None
        self.finish(error)

    def split(self) -> "tuple[Batch, Batch]":
        """Return two halves, with its records, its sequence and its waiters."""
        records = self._decoded()
        middle = len(records) // 2
        first, second = self._part(records[:middle]), self._part(records[middle:])
        first.pinned = [each for each in self.pinned if each < middle]
        second.pinned = [each - middle for each in self.pinned if each >= middle]
        first.may_be_written = second.may_be_written = self.may_be_written
        first.has_other_number = second.has_other_number = self.has_other_number or self.may_be_written
        if self.has_sequence:
            first.identity = second.identity = self.identity
            first.base_sequence = self.base_sequence
            second.base_sequence = next_sequence(self.base_sequence, middle)
        self._hand_over((first, second))
        return first, second

    def move(self, choose: Callable[[int, Record], TopicPartition]) -> "tuple[Batch, ...]":
        """Return a batch for each partition that is chosen for its records, of their numbers here and them.

        They have its records, in order, and its waiters.
        """
        found: dict[TopicPartition, Batch] = {}
        for index, each in enumerate(self._decoded()):
            partition = choose(index, each)
            part = found.get(partition)
            if part is None:
                part = found[partition] = Batch(partition, self.created_ms)
            self._places.append((part, part._add(each)))
        self._hand_over(tuple(found.values()))
        return self.parts

    def _decoded(self) -> list[Record]:
        return list(iterate_records(self._sealed(self.records.payload(), Compression.NONE)))

    def _part(self, records: Sequence[Record]) -> "Batch":
        part = Batch(self.partition, self.created_ms)
        for each in records:
            part._add(each)
        return part

    def _add(self, record: Record) -> int:
        self.size_bytes += _record_bytes(record.key, record.value, record.headers)
        return self.records.add(record.timestamp, record.key, record.value, record.headers)

    def _hand_over(self, parts: "tuple[Batch, ...]") -> None:
        """Give its memory to its parts, and let its waiters wait for them."""
        for part in parts:
            part.reserved_bytes = self.reserved_bytes // len(parts)
            part.home = self.home
        parts[0].reserved_bytes += self.reserved_bytes % len(parts)
        self.parts = parts
        while (told := self._next_callback()) is not None:
            part, place = self.locate(told.index)
            part._callbacks.append(_Callback(place, told.call))
        self._let_go()
        self._wake()

    def _let_go(self) -> None:
        """Keep no records, of which deliveries may hold the batch for long."""
        self._payload = None
        self.records.clear()

    def locate(self, index: int) -> "tuple[Batch, int]":
        """Return the batch that carries a record by now, and its place there."""
        batch = self
        while batch.parts:
            if batch._places:
                batch, index = batch._places[index]
                continue
            first, second = batch.parts
            if index < first.record_count:
                batch = first
            else:
                batch, index = second, index - first.record_count
        return batch, index

    async def wait(self) -> None:
        """Return when its fate is known, or it was split. Raises: ConcurrentAccessError in another loop."""
        if self.home is not None:
            self.home.check()
        if not self.is_done and not self.parts:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def wait_in_thread(self, timeout_s: float | None) -> bool:
        """Return whether its fate was known, or it was split, in time. In any other thread."""
        lock = allocate_lock()
        lock.acquire()
        self._waiting.append(lock)
        if self.is_done or self.parts:
            return True
        if lock.acquire(timeout=-1 if timeout_s is None else min(timeout_s, TIMEOUT_MAX)):
            return True
        with suppress(ValueError):
            self._waiting.remove(lock)
        return False

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

    def when_done(self, index: int, callback: Callable[[], None]) -> None:
        """Call `callback` in the sender's thread when the fate of the record is known; at once if it is."""
        batch = self
        while True:
            batch, index = batch.locate(index)
            told = _Callback(index, callback)
            batch._callbacks.append(told)
            if not batch.is_done and not batch.parts:
                return  # The sender finds it there.
            try:
                batch._callbacks.remove(told)
            except ValueError:
                return  # The sender was quicker.
            if batch.is_done:
                callback()
                return

    def _next_callback(self) -> "_Callback | None":
        try:
            return self._callbacks.popleft()
        except IndexError:
            return None

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()
        while self._waiting:
            self._waiting.pop().release()


def _record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size that was counted for a record when it was appended."""
    if key or headers:
        return max_record_bytes(key, value, headers)
    return PLAIN_RECORD_BYTES + len(value or b"")


class _Callback:
    """The callback of a batch's record; each is equal only to itself."""

    __slots__ = ("call", "index")

    def __init__(self, index: int, call: Callable[[], None]) -> None:
        self.index = index
        self.call = call


class Appended(msgspec.Struct, frozen=True, gc=False):
    """A record with its position in a batch: the clients make their deliveries from it."""

    batch: Batch
    index: int
    timestamp_ms: int

    @property
    def is_done(self) -> bool:
        """Whether the record's fate is known."""
        return self.batch.locate(self.index)[0].is_done

    def __repr__(self) -> str:
        batch, index = self.batch.locate(self.index)
        if not batch.is_done:
            state = "on its way"
        elif batch.error is not None:
            state = f"failed: {batch.error}"
        else:
            state = f"written at offset {batch.base_offset + index}" if batch.base_offset >= 0 else "written"
        return f"<{type(self).__name__} to {batch.partition}, {state}>"

    def known_metadata(self) -> RecordMetadata:
        """Return where the record was written, once its fate is known. Raises: KohortError if it was not."""
        batch, index = self.batch.locate(self.index)
        return batch.metadata_of(index, self.timestamp_ms)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the sender's thread when the record's fate is known; at once if it is."""
        self.batch.when_done(self.index, callback)


def next_sequence(sequence: int, record_count: int) -> int:
    """Return the sequence so many records later; after 2147483647 comes 0."""
    return (sequence + record_count) & 0x7FFFFFFF
