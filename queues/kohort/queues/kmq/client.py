"""Who takes records from a queue and says what became of each."""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack

import anyio

from kohort.client.aio import Consumer, Delivery, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import ConsumerRecords, PolledOffsets
from kohort.client.errors import CommitFailedError, RebalanceInProgressError
from kohort.client.key_runs import send_keys
from kohort.client.retry import Deadline
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from kohort.queues.copying import write_copy
from kohort.queues.joining import generation_of
from kohort.queues.kmq.copies import headers_of_dead_letter
from kohort.queues.kmq.ends import EndMarkers, EndRun
from kohort.queues.kmq.markers import KEY_SIZE, Start, pack_key, pack_keys
from kohort.queues.kmq.queue import Queue
from kohort.queues.options import consumer_options, producer_options

logger = logging.getLogger(__name__)

COMMIT_TRY_MS = 500  # A commit that takes longer waits for a rebalance, which takes a poll.
POLL_MS = 500


@dataclass(slots=True)
class _Polled:
    """Records that nobody was given yet, and their offsets by partition."""

    records: ConsumerRecords[bytes, bytes]
    offsets: dict[int, list[int]]
    is_marked: bool = False

    def next_offsets(self, topic: str) -> PolledOffsets:
        """Return what there is to commit."""
        ends = {
            TopicPartition(topic, partition): OffsetAndMetadata(offsets[-1] + 1)
            for partition, offsets in self.offsets.items()
        }
        return PolledOffsets(ends, self.records.assignment_number)


class QueueClient:
    """Takes records in batches, and acknowledges each by itself, at any time and in any order.

    Each record of a batch has a start marker, and its offset is committed, before it is handed out: it
    is delivered again when its time is over, unless `processed` has written an end marker by then. Inside
    `async with` only; batches by one task at a time, acknowledgements by any.
    """

    def __init__(self, queue: Queue, **options: Unpack[ConsumerOptions]) -> None:
        self.queue = queue
        self._consumer: Consumer[bytes, bytes] = Consumer(
            queue.topic, **consumer_options(options, queue.group_id)
        )
        self._options = options
        self._producer = Producer(**producer_options(options))
        self._pending: deque[_Polled] = deque()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._producer)
            await stack.enter_async_context(self._consumer)
            self._ends = EndMarkers(self._producer, self.queue.markers_topic)
            self._collected = self._ends.collected
            await self._ends.start()
            stack.push_async_exit(self._end)
            self._stack = stack.pop_all()
        return self

    async def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ends.end(is_waiting=kind is None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def generation_id(self) -> int:
        """The generation of the queue's group that it has its partitions in; -1 before the first."""
        return generation_of(self._consumer)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions of the topic that it takes records from."""
        return self._consumer.assignment()

    # Taking

    async def next_batch(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord[bytes, bytes]]:
        """Return records that are ours now, as soon as there are any; none when the time is over.

        After an error it may be called again: what was polled and not handed out comes then.
        Raises: KohortError.
        """
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        while True:
            if not self._pending:
                await self._poll(_remaining(deadline), max_records)
            if self._pending and await self._take(self._pending[0]):
                return list(self._pending.popleft().records)
            if deadline is not None and deadline.passed:
                return []

    async def _poll(self, timeout_ms: float, max_records: int | None) -> None:
        found = await self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        if found:
            self._pending.append(_Polled(found, _offsets_by_partition(found)))

    async def _take(self, first: _Polled) -> bool:
        """Return whether what was polled first is ours: marked, and committed."""
        if not first.is_marked:
            await self._mark(first.offsets)
            first.is_marked = True
        try:
            with anyio.move_on_after(COMMIT_TRY_MS / 1000):
                await self._consumer.commit(first.next_offsets(self.queue.topic))
                return True
        except CommitFailedError as error:
            self._drop(first, error)
            return False
        except RebalanceInProgressError:
            pass
        await self.keep_alive()  # So that the rebalance goes on; then it is tried again.
        return False

    async def _mark(self, offsets: dict[int, list[int]]) -> None:
        topic, value = self.queue.markers_topic, Start(self.queue.message_timeout_ms).encode()
        await self._ends.send()  # They travel in the same request.
        runs = [
            await send_keys(
                self._producer, topic, partition, pack_keys(partition, some), value, key_size=KEY_SIZE
            )
            for partition, some in offsets.items()
        ]
        for run in runs:
            await run.wait()

    def _drop(self, first: _Polled, error: CommitFailedError) -> None:
        """Forget what is somebody else's now; nobody was given it."""
        gone = {TopicPartition(*each) for each in error.partitions}
        records = first.records
        kept = [each for each in records if gone and TopicPartition(each.topic, each.partition) not in gone]
        logger.info("%s record(s) are left to others: %s", len(records) - len(kept), str(error))
        if kept:
            first.records = ConsumerRecords(kept, records.assignments)
            first.offsets = _offsets_by_partition(kept)
        else:
            self._pending.popleft()

    async def keep_alive(self) -> None:
        """Stay a member of the group, and read nothing: call it within max_poll_interval_ms of a batch.

        Raises: KohortError.
        """
        self._consumer.pause()
        try:
            await self._poll(0, None)
        finally:
            self._consumer.resume()

    # Acknowledging

    async def processed(self, record: ConsumerRecord[bytes, bytes]) -> EndRun:
        """Write that the record is done; `await` what it returns for when that is kept.

        It is written with others that are done at that moment. It need not be awaited: at worst the record is
        delivered once more.
        """
        # Without a call for each record: there may be hundreds of thousands a second.
        run = self._collected.get(record.partition) or self._ends.begin(record.partition)
        run.offsets.append(record.offset)
        return run

    async def release(self, record: ConsumerRecord[bytes, bytes], delay_ms: int = 0) -> Delivery:
        """Have the record delivered again, to anybody, now or after a while.

        The original's tracker understands it, too; only that it never waits longer than the first time-out.
        """
        return await self._write(record, Start(delay_ms).encode())

    async def extend(self, record: ConsumerRecord[bytes, bytes], timeout_ms: int | None = None) -> Delivery:
        """Take more time for the record, from now on: as much as at first, unless told otherwise."""
        more_ms = self.queue.message_timeout_ms if timeout_ms is None else timeout_ms
        return await self._write(record, Start(more_ms).encode())

    async def reject(self, record: ConsumerRecord[bytes, bytes], why: str = "rejected") -> EndRun:
        """Write the record to the dead letters, and then that it is done. Raises: KohortError."""
        topic, headers = self.queue.dead_letters_topic, headers_of_dead_letter(record, why)
        await write_copy(self._producer, self._options, topic, record, headers)
        return await self.processed(record)

    async def flush(self) -> None:
        """Return when everything said so far is kept."""
        await self._ends.flush()
        await self._producer.flush()

    async def _write(self, record: ConsumerRecord[bytes, bytes], value: bytes) -> Delivery:
        key = pack_key(record.partition, record.offset)
        return await self._producer.send(self.queue.markers_topic, value, key=key, partition=record.partition)


def _offsets_by_partition(records: Sequence[ConsumerRecord[bytes, bytes]]) -> dict[int, list[int]]:
    partition, offsets = records[0].partition, [each.offset for each in records]
    partitions = [each.partition for each in records]
    if partitions.count(partition) == len(partitions):  # As in most batches.
        return {partition: offsets}
    found: dict[int, list[int]] = {}
    for partition, offset in zip(partitions, offsets, strict=True):
        found.setdefault(partition, []).append(offset)
    return found


def _remaining(deadline: Deadline | None) -> float:
    return POLL_MS if deadline is None else min(POLL_MS, max(0.0, deadline.remaining_ms))
