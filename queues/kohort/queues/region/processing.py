"""The processing side of a member: records from a queue to the operator, under a permit."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

import anyio

from kohort.client.values import TopicPartition
from kohort.queues.region.entries import Offsets
from kohort.queues.region.executors import Executor, OperatorError, Processed, Record

BATCH_MAX = 500  # So many records are processed under one permit.


class Processing:
    """A queue and who works it off.

    `noted` has the offset behind what was processed of each partition, `count` how much was, resets or not.
    """

    def __init__(self, executor: Executor) -> None:
        self.noted: Offsets = {}
        self.count = 0
        self.failure = ""
        self._executor = executor
        self._queue: deque[Record] = deque()
        self._batch_size = 1
        self._under_way = 0  # So many records the operator was given.
        self._void: set[str] = set()  # Partitions that were forgotten meanwhile.
        self._is_dropped = False
        self._scope: anyio.CancelScope | None = None  # Of the batch; a scope is made in a loop alone.
        self._forgotten: set[str] = set()
        self._permit = anyio.Lock()
        self._filled = anyio.Event()
        self._going = anyio.Event()
        self._going.set()

    def __len__(self) -> int:
        return len(self._queue) + self._under_way

    def put(self, records: Iterable[Record]) -> None:
        """Have these processed, in their order; none of them after a failure."""
        if self.failure:
            return
        begin = len(self._queue)
        self._queue.extend(records)
        if self._forgotten:
            for record in islice(self._queue, begin, None):
                self._begin_at(record)
        self._filled.set()

    def _begin_at(self, record: Record) -> None:
        """Note the offset of the first record of a new topic: the records before it are none of ours."""
        partition = name_of(record)
        if partition in self._forgotten:
            self._forgotten.discard(partition)
            self.noted[partition] = record.offset

    def forget(self, partition: str) -> None:
        """Drop the records of a topic that was deleted, and their offset: it is none of the new topic."""
        self._queue = deque(each for each in self._queue if name_of(each) != partition)
        self._void.add(partition)
        self.noted.pop(partition, None)
        self._forgotten.add(partition)

    async def run(self) -> None:
        """Process until cancelled. A failure is kept, and nothing processed until `restore`."""
        while True:
            await self._filled.wait()
            await self._going.wait()
            async with self._permit:
                if self._queue and self._going.is_set():
                    await self._process_batch()
                if not self._queue:
                    self._filled = anyio.Event()

    async def _process_batch(self) -> None:
        """Let the operator process what it can in a short time; the rest goes back to the queue."""
        most = min(len(self._queue), self._batch_size)
        batch = [self._queue.popleft() for _ in range(most)]
        self._under_way, self._is_dropped = most, False
        self._void.clear()
        done: Processed | None = None
        with anyio.CancelScope() as self._scope:
            try:
                done = await self._executor.process(batch)
            except OperatorError as error:
                done = Processed(0, str(error))
        self._under_way = 0
        if done is None:
            return  # It was given up for a restore, which drops all of it.
        # A longer batch only where there was time enough: a process is sent the whole of it.
        self._batch_size = min(BATCH_MAX, 2 * most if done.count == most else max(1, done.count))
        self._note(batch[: done.count])
        if done.failure:
            self.failure = done.failure
            self._queue.clear()
        elif not self._is_dropped:
            rest = batch[done.count :]
            self._queue.extendleft(each for each in reversed(rest) if name_of(each) not in self._void)

    def _note(self, processed: Sequence[Record]) -> None:
        self.count += len(processed)
        ends = {(each.topic, each.partition): each.offset + 1 for each in processed}
        for (topic, number), end in ends.items():
            partition = f"{topic}-{number}"
            if partition not in self._void:
                self.noted[partition] = end

    async def hold(self) -> None:
        """Return when nothing is processed any more, until `go_on`: the queue stays as it is."""
        if self._going.is_set():
            self._going = anyio.Event()
        async with self._permit:
            pass

    def go_on(self) -> None:
        """Process again after `hold`."""
        self._going.set()

    def drop(self) -> None:
        """Forget what was not begun."""
        self._queue.clear()
        self._is_dropped = True

    async def save(self, sequence_id: int) -> bytes:
        """Return the operator's state after what is noted. Only on hold. Raises: OperatorError."""
        return await self._executor.save(sequence_id)

    async def restore(self, state: bytes | None, patience_s: float) -> None:
        """Begin anew with this state. Raises: OperatorError.

        A batch that does not end in this time is given up: a process that hangs is ended then.
        """
        self.drop()
        with anyio.move_on_after(patience_s):
            await self.hold()
        if self._scope is not None:
            self._scope.cancel()
        async with self._permit:
            self._queue.clear()
            await self._executor.restore(state)
            self.noted = {}
            self._forgotten.clear()
            self.failure = ""
        self.go_on()


def name_of(item: TopicPartition | Record) -> str:
    """Return the name that the region's log has for a partition, or for that of a record."""
    return f"{item.topic}-{item.partition}"
