"""The processing side of a member: records from a queue to the operator, under a permit."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

import anyio

from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.queues.region.entries import Offsets

AT_ONCE = 100  # So many records are processed under one permit.


class Operator(Protocol):
    """What a member computes: its state is all that it knows of the records it was given."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Take a record into the state."""

    def save(self, sequence_id: int) -> bytes:
        """Return the state."""
        ...

    def restore(self, state: bytes | None) -> None:
        """Have this state, and no other; None for the one at the beginning."""


class Processing:
    """A queue and who works it off.

    `noted` has the offset behind what was processed of each partition, `count` how much was, resets or not.
    """

    def __init__(self, operator: Operator) -> None:
        self.noted: Offsets = {}
        self.count = 0
        self.failure: Exception | None = None
        self._operator = operator
        self._queue: deque[ConsumerRecord[bytes, bytes]] = deque()
        self._under_way: ConsumerRecord[bytes, bytes] | None = None
        self._forgotten: set[str] = set()
        self._permit = anyio.Lock()
        self._filled = anyio.Event()
        self._going = anyio.Event()
        self._going.set()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        """Have these processed, in their order."""
        begin = len(self._queue)
        self._queue.extend(records)
        if self._forgotten:
            for record in islice(self._queue, begin, None):
                self._begin_at(record)
        self._filled.set()

    def _begin_at(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Note the offset of the first record of a new topic: the records before it are none of ours."""
        partition = name_of(record)
        if partition in self._forgotten:
            self._forgotten.discard(partition)
            self.noted[partition] = record.offset

    def forget(self, partition: str) -> None:
        """Drop the records of a topic that was deleted, and their offset: it is none of the new topic."""
        self._queue = deque(each for each in self._queue if name_of(each) != partition)
        self.noted.pop(partition, None)
        self._forgotten.add(partition)
        record = self._under_way
        if record is not None and name_of(record) == partition:
            self._under_way = None

    async def run(self) -> None:
        """Process until cancelled. A failure is kept, and nothing processed until `restore`."""
        while True:
            await self._filled.wait()
            await self._going.wait()
            async with self._permit:
                for _ in range(AT_ONCE):
                    if not self._queue or not self._going.is_set():
                        break
                    await self._process(self._queue.popleft())
                if not self._queue:
                    self._filled = anyio.Event()
            await anyio.sleep(0)

    async def _process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        self._under_way = record
        try:
            await self._operator.process(record)
        except Exception as error:  # noqa: BLE001 - the user's code; the region resets for it.
            self.failure = error
            self._queue.clear()
        else:
            if self._under_way is record:
                self.noted[name_of(record)] = record.offset + 1
            self.count += 1

    async def hold(self) -> None:
        """Finish the record that is under way, and process none until `go_on`: the queue stays as it is."""
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

    def save(self, sequence_id: int) -> bytes:
        """Return the operator's state after the records that are noted. Only on hold."""
        return self._operator.save(sequence_id)

    async def restore(self, state: bytes | None) -> None:
        """Begin anew with this state."""
        self._queue.clear()
        async with self._permit:
            self._queue.clear()
            self._operator.restore(state)
            self.noted = {}
            self._forgotten.clear()
            self.failure = None
        self.go_on()


def name_of(item: TopicPartition | ConsumerRecord[bytes, bytes]) -> str:
    """Return the name that the region's log has for a partition, or for that of a record."""
    return f"{item.topic}-{item.partition}"
