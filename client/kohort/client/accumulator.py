"""Records on their way out, collected into batches per partition until the sender takes them.

`append` may be called from any thread; the rest belongs to the sender's thread. The work for each record is
as little as Python allows: its encoding, under a lock. The rest happens once for each batch.
"""

import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType
from uuid import UUID

from kohort.client.batch import PLAIN_RECORD_BYTES, Appended, Batch, Headers, ProducerIdentity
from kohort.client.config import ProducerConfig
from kohort.client.errors import BrokerError
from kohort.client.home_loop import HomeLoop
from kohort.client.partition_queue import PartitionQueue, TopicQueues
from kohort.client.partitioner import (
    SHORT_KEY_BYTES,
    choose_by_queue,
    partition_for_long_key,
    partition_for_short_key,
)
from kohort.client.retry import monotonic_ms
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import HEADER_BYTES, max_record_bytes
from kohort.protocol.schema import ZERO_UUID

_ENOUGH_ROOM_BYTES = 1 << 20
_GROWS_FOR_MS = 1_000  # All records of a batch share the delivery_timeout_ms of the first one.


class Accumulator:
    """The batches of all partitions, bounded by buffer_memory."""

    def __init__(
        self,
        config: ProducerConfig,
        wake: Callable[[], None] = lambda: None,
        kind: type[Appended] = Appended,
    ) -> None:
        self._batch_bytes = min(config.batch_size, config.max_request_size)
        self._largest_bytes = max(self._batch_bytes, min(config.batch_max_size, config.max_request_size))
        self._config = config
        self._kind = kind
        self._wake = wake
        self._lock = threading.Lock()
        self._topics: dict[str, TopicQueues] = {}
        self._missing: dict[str, TopicQueues] = {}  # Of topics that do not exist at the moment.
        self._is_closed = False
        self._pending: dict[TopicPartition, PartitionQueue] = {}  # Those with batches to be sent.
        self._reserved_bytes = 0
        self.flushes = 0  # How many wait for everything to be sent now.
        self.starved = 0  # How many wait for memory.
        self.wakes = True  # Whether the sender wants a wake-up for each new batch.
        self.is_woken = False  # Whether there is a batch that the sender has not seen yet.
        self.has_news = False  # Whether there may be a batch that the sender has not seen.
        self.home: HomeLoop | None = (
            None  # Of an asynchronous producer: the loop from which all records come.
        )
        self.has_vanished = False  # Whether a topic has lost partitions, for which batches may wait.

    @property
    def buffered_bytes(self) -> int:
        """How much of buffer_memory is in use."""
        return self._reserved_bytes

    def learn(self, topic: str, partition_count: int, topic_id: UUID = ZERO_UUID) -> None:
        """Accept records for this many partitions of a topic.

        A smaller number is outdated metadata, unless the topic was recreated, as its id tells. Batches for
        removed partitions are in `vanished` then.
        """
        with self._lock:
            if self._is_closed:
                return
            queues = self._missing.pop(topic, None) or self._topics.get(topic) or TopicQueues()
            if topic_id == queues.topic_id != ZERO_UUID:
                partition_count = max(partition_count, len(queues.partitions))
            elif queues.topic_id != ZERO_UUID:
                queues.have_new_logs()
            queues.topic_id = topic_id
            queues.resize(topic, partition_count, self._largest_bytes)
            self._topics[topic] = queues
            self.has_vanished = any(each.vanished for each in self._topics.values())

    def forget(self, topic: str) -> None:
        """Refuse records for a topic until it exists again.

        Its partitions keep their batches and their sequences: the metadata may be outdated.
        """
        with self._lock:
            queues = self._topics.pop(topic, None)
            if queues is not None:
                self._missing[topic] = queues

    def topics(self) -> set[str]:
        """Return the topics that take records."""
        return set(self._topics)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions of a topic take records, 0 while it is unknown."""
        queues = self._topics.get(topic)
        return 0 if queues is None else len(queues.partitions)

    def close(self) -> None:
        """Refuse all records."""
        with self._lock:
            self.refuse()

    def refuse(self) -> None:
        """Refuse records from now on, except one whose `append` is running. Needs no lock."""
        self._is_closed = True
        self._topics = {}

    def append(  # noqa: PLR0917  # Names would cost time for each record.
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        is_chosen: bool = False,
    ) -> Appended | None:
        """Return the record's place; None while its topic or partition is unknown, or there is no room.

        `is_chosen` tells that the user's partitioner chose the partition, and may choose again if that one
        vanishes. Raises: BrokerError for a record that is too large for any request.
        """
        size_bytes = PLAIN_RECORD_BYTES + len(value or b"")
        if headers or key:
            size_bytes = max_record_bytes(key, value, headers)
        queues = self._topics.get(topic)
        if queues is None:
            return None
        with self._lock:
            if partition is not None:
                if not 0 <= partition < len(queues.partitions):
                    return None
                queue = queues.partitions[partition]
            elif key is not None:
                count = len(queues.partitions)
                is_short = len(key) <= SHORT_KEY_BYTES
                queue = queues.partitions[
                    partition_for_short_key(key, count) if is_short else partition_for_long_key(key, count)
                ]
            else:
                queue = queues.sticky or self._next_sticky(queues)
            batch = queue.open
            if batch is None or batch.size_bytes + size_bytes > batch.reserved_bytes:
                self.has_news = True  # Before there are any: an exception may end this anywhere.
                batch = self._next_batch(queues, queue, size_bytes, partition is None and key is None)
                if batch is None:
                    return None
            batch.size_bytes += size_bytes
            index = batch.records.add(timestamp_ms, key, value, headers)
            if partition is not None and not is_chosen:
                batch.pinned.append(index)
        if self.has_news and self.wakes and not self.is_woken:
            self._wake_sender()
        return self._kind(batch, index, timestamp_ms)

    def append_keys(
        self, topic: str, partition: int, keys: bytes, value: bytes, timestamp_ms: int, *, key_size: int
    ) -> list[tuple[Appended, int]]:
        """Append a record for each key of `key_size` bytes in `keys`, as far as there is room.

        Return the first record in each batch, and how many follow it there with itself; of an asynchronous
        producer alone. Raises: BrokerError for a record that is too large for any request.
        """
        found: list[tuple[Appended, int]] = []
        queues = self._topics.get(topic)
        if queues is None or not 0 <= partition < len(queues.partitions):
            return found
        size_bytes = max_record_bytes(keys[:key_size], value)
        done, count = 0, len(keys) // key_size
        with self._lock:
            queue = queues.partitions[partition]
            while done < count:
                batch = queue.open
                if batch is None or batch.size_bytes + size_bytes > batch.reserved_bytes:
                    self.has_news = True
                    batch = self._next_batch(queues, queue, size_bytes, is_sticky=False)
                    if batch is None:
                        break
                room = (batch.reserved_bytes - batch.size_bytes) // size_bytes
                following = min(count, done + room)
                some = keys[done * key_size : following * key_size]
                batch.size_bytes += size_bytes * (following - done)
                index = batch.records.add_keys(timestamp_ms, some, key_size, value)
                batch.pinned.extend(range(index, index + following - done))
                found.append((self._kind(batch, index, timestamp_ms), following - done))
                done = following
        if self.has_news and self.wakes and not self.is_woken:
            self._wake_sender()
        return found

    def _wake_sender(self) -> None:
        """Wake the sender, once until it looks."""
        self.is_woken = True
        try:
            self._wake()
        except BaseException:
            self.is_woken = False
            raise

    def _next_batch(
        self, queues: TopicQueues, queue: PartitionQueue, size_bytes: int, is_sticky: bool
    ) -> Batch | None:
        """Return a batch with room for a record, or None while there is no memory for one.

        Raises: ConcurrentAccessError in another loop than the producer's.
        """
        if self.home is not None:
            self.home.check()
        self._check_size(queue, size_bytes)
        if is_sticky:
            queue = self._sticky_queue(queues, queue)
        batch = queue.open
        if batch is None or not self._may_take(queue, batch, size_bytes):
            batch = self._begin_batch(queue, size_bytes)
        elif batch.size_bytes + size_bytes > batch.reserved_bytes:
            batch = self._grown_batch(queue, batch, size_bytes)
        if batch is None:
            return None
        if is_sticky:
            queues.sticky_batch = batch
        return batch

    @staticmethod
    def _may_take(queue: PartitionQueue, batch: Batch, size_bytes: int) -> bool:
        """Whether a batch may grow for a record, or has the room already."""
        needed_bytes = batch.size_bytes + size_bytes
        if needed_bytes <= batch.reserved_bytes:
            return True
        return needed_bytes <= queue.largest_bytes and monotonic_ms() - batch.created_ms <= _GROWS_FOR_MS

    def _begin_batch(self, queue: PartitionQueue, size_bytes: int) -> Batch | None:
        needed_bytes = max(self._batch_bytes, size_bytes + HEADER_BYTES)
        if self._reserved_bytes and self._reserved_bytes + needed_bytes > self._config.buffer_memory:
            return None
        batch = Batch(queue.partition, monotonic_ms())
        batch.home = self.home
        reserved_bytes = self._reserved_bytes + needed_bytes
        queue.batches.append(batch)
        self._pending.setdefault(queue.partition, queue)
        # From here on there is no call, and so no place for a signal handler that raises: before the batch
        # accepts records it is in the queue, and its memory is counted completely or not at all.
        self._reserved_bytes = reserved_bytes
        batch.reserved_bytes = needed_bytes
        queue.open = batch
        return batch

    def _grown_batch(self, queue: PartitionQueue, batch: Batch, size_bytes: int) -> Batch | None:
        """Return a batch that is due but not sent, with memory for one more record (KIP-782)."""
        batch.is_due = True
        wanted_bytes = max(batch.reserved_bytes + self._batch_bytes, batch.size_bytes + size_bytes)
        more_bytes = min(wanted_bytes, queue.largest_bytes) - batch.reserved_bytes
        if self._reserved_bytes + more_bytes > self._config.buffer_memory:
            return None
        of_batch, of_all = batch.reserved_bytes + more_bytes, self._reserved_bytes + more_bytes
        batch.reserved_bytes, self._reserved_bytes = of_batch, of_all
        return batch

    def _check_size(self, queue: PartitionQueue, size_bytes: int) -> None:
        for name, most in (
            ("max_request_size", self._config.max_request_size),
            ("buffer_memory", self._config.buffer_memory),
        ):
            if size_bytes + HEADER_BYTES > most:
                raise BrokerError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a record of {size_bytes} bytes for {queue.partition.topic!r}; {name} is {most}",
                )

    def _sticky_queue(self, queues: TopicQueues, queue: PartitionQueue) -> PartitionQueue:
        """Return the queue for records without a key; it changes after a batch's worth of bytes.

        Source: KIP-794. A partition with a slow broker has a longer queue, and is chosen less often.
        """
        if queues.sticky_batch is not None:
            queues.sticky_bytes += queues.sticky_batch.size_bytes
            queues.sticky_batch = None
        if queue.open is not None:  # It has no room for the record, or has to grow for it.
            queue.open.is_due = True
        elif queues.sticky_bytes < self._batch_bytes:
            return queue
        return self._next_sticky(queues)

    def _next_sticky(self, queues: TopicQueues) -> PartitionQueue:
        queue = queues.sticky = choose_by_queue(queues.partitions)
        queues.sticky_bytes = 0
        return queue

    def appends(self) -> bool:
        """Whether the calling thread is in the midst of `append`, where a signal handler interrupted it."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code is Accumulator.append.__code__ and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def after_fork(self) -> None:
        """Close in a forked process, even if another thread held the lock."""
        self._lock = threading.Lock()
        self.close()

    # The sender's side

    def due(self, now_ms: int) -> tuple[list[PartitionQueue], int | None]:
        """Return the partitions whose first batch should go out, and how long until there are more."""
        due: list[PartitionQueue] = []
        wait_ms: int | None = None
        with self._lock:
            hurried = self.flushes > 0 or self.starved > 0
            for queue in self._pending.values():
                first = queue.batches[0]
                at_ms = queue.not_before_ms
                if first is queue.open and not first.is_due and not hurried:
                    at_ms = max(at_ms, first.created_ms + self._config.linger_ms)
                if at_ms <= now_ms:
                    due.append(queue)
                elif wait_ms is None or at_ms - now_ms < wait_ms:
                    wait_ms = at_ms - now_ms
        return due, wait_ms

    def take(self, queue: PartitionQueue) -> Batch:
        """Return a partition's first batch, which then refuses records.

        The partition moves to the end of the queue.
        """
        with self._lock:
            return self._take(queue)

    def _take(self, queue: PartitionQueue) -> Batch:
        batch = queue.batches.popleft()
        if batch is queue.open:
            queue.open = None
        del self._pending[queue.partition]
        if queue.batches:
            self._pending[queue.partition] = queue
        return batch

    def put_back(self, queue: PartitionQueue, batch: Batch) -> None:
        """Let a batch be sent again, before everything that was to follow it."""
        with self._lock:
            place = 0
            if batch.has_sequence:  # Several may be returned, in any order.
                outstanding = queue.sequences.outstanding
                rank = outstanding.index(batch)
                while place < len(queue.batches) and queue.batches[place] in outstanding[:rank]:
                    place += 1
            queue.batches.insert(place, batch)
            self._pending.setdefault(queue.partition, queue)

    def release(self, batch: Batch) -> None:
        """Free a batch's memory: its fate is known."""
        with self._lock:
            self._reserved_bytes -= batch.reserved_bytes

    def vanished(self) -> list[PartitionQueue]:
        """Return the removed partitions that still have batches to place again, or answers to wait for."""
        with self._lock:
            every = [queue for each in self._topics.values() for queue in each.vanished.values()]
        found = [queue for queue in every if queue.batches or queue.in_flight]
        self.has_vanished = bool(found)
        return found

    def withdraw(self, queue: PartitionQueue) -> list[Batch]:
        """Take out all batches of a partition: they are placed again, or given up."""
        with self._lock:
            found = list(queue.batches)
            queue.batches.clear()
            self._pending.pop(queue.partition, None)
            return found

    def remove(self, queue: PartitionQueue, batch: Batch) -> None:
        """Take out one batch of a partition that was sent before: it is given up."""
        with self._lock:
            queue.batches.remove(batch)
            if not queue.batches:
                del self._pending[queue.partition]

    def least_busy(self, topic: str) -> TopicPartition:
        """Return a partition for records without a key, as they choose theirs."""
        with self._lock:
            return choose_by_queue(self._topics[topic].partitions).partition

    def place(self, batch: Batch, behind: Collection[Batch]) -> None:
        """Put a batch into the queue of its partition, before batches appended there later, but after
        `behind`."""
        with self._lock:
            queue = self._topics[batch.partition.topic].partitions[batch.partition.partition]
            place = 0
            for number, each in enumerate(queue.batches):
                if each.has_sequence or each.attempts or each in behind:
                    place = number + 1
            queue.batches.insert(place, batch)
            self._pending.setdefault(queue.partition, queue)

    def restart_sequences(self, identity: ProducerIdentity) -> None:
        """Let every partition start at 0 with a new identity; nothing is in flight."""
        with self._lock:
            for topic in (*self._topics.values(), *self._missing.values()):
                for queue in (*topic.partitions, *topic.vanished.values()):
                    queue.sequences.restart(identity)

    def has_room(self) -> bool:
        """Whether so much memory is free that a waiting sender can continue for a while."""
        free_bytes = self._config.buffer_memory - self._reserved_bytes
        return (
            free_bytes >= min(self._config.buffer_memory // 8, _ENOUGH_ROOM_BYTES) or not self._reserved_bytes
        )

    def expired(self, now_ms: int) -> list[tuple[PartitionQueue, Batch]]:
        """Take out the batches that have waited for delivery_timeout_ms."""
        before_ms = now_ms - self._config.delivery_timeout_ms
        late: list[tuple[PartitionQueue, Batch]] = []
        with self._lock:
            for queue in tuple(self._pending.values()):
                while queue.batches and queue.batches[0].created_ms <= before_ms:
                    late.append((queue, self._take(queue)))
        return late

    def waiting(self) -> list[tuple[PartitionQueue, Batch]]:
        """Return the batches that wait to be sent, in their order."""
        with self._lock:
            return [(queue, batch) for queue in self._pending.values() for batch in queue.batches]
