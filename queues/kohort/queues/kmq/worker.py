"""A process of a queue: takes records and has a function work on several at once."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Unpack

import anyio

from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.signal import Signal
from kohort.client.values import ConsumerRecord
from kohort.queues.kmq.client import QueueClient
from kohort.queues.kmq.queue import Queue

logger = logging.getLogger(__name__)

POLL_MS = 500
Handler = Callable[[ConsumerRecord[bytes, bytes]], Awaitable[object]]


class Reject(Exception):
    """Raised by a handler: the record can never be worked on, and belongs to the dead letters."""


class Release(Exception):
    """Raised by a handler: let it be delivered again, to anybody, now or after `delay_ms`."""

    def __init__(self, delay_ms: int = 0) -> None:
        self.delay_ms = delay_ms
        super().__init__(f"deliver it again after {delay_ms} ms")


class QueueWorker:
    """Has `handler` called with each record of a queue, `workers` at a time, in no order.

    A record whose handler returns is done. `Reject` and `Release` decide otherwise; with any other exception
    it is delivered again when its time is over, and at last is a dead letter.
    """

    def __init__(
        self,
        queue: Queue,
        handler: Handler,
        *,
        workers: int = 8,
        batch_max: int = 100,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        for name, value in (("workers", workers), ("batch_max", batch_max)):
            if value < 1:
                raise ConfigurationError(f"{name} is {value}: at least 1 is needed")
        self.queue = queue
        self.done = self.released = self.rejected = self.failed = 0
        self._client = QueueClient(queue, **options)
        self._handler = handler
        self._workers = workers
        self._batch_max = batch_max
        self._waiting: deque[ConsumerRecord[bytes, bytes]] = deque()
        self._running = 0
        self._room = Signal()
        self._stopping = False

    def stop(self) -> None:
        """Let `run` end: what was taken is worked on, and no more is taken."""
        self._stopping = True
        self._room.set()

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the queue's group, and does not stop."""
        return not self._stopping and self._client.generation_id >= 0

    def status(self) -> Mapping[str, object]:
        """Return what it works on now, and what became of records since its start."""
        return {
            "topic": self.queue.topic,
            "group": self.queue.group_id,
            "generation_id": self._client.generation_id,
            "partitions": [each.partition for each in sorted(self._client.partitions)],
            "workers": self._workers,
            "running": self._running,
            "waiting": len(self._waiting),
            "done": self.done,
            "failed": self.failed,
            "released": self.released,
            "rejected": self.rejected,
        }

    async def run(self) -> None:
        """Work until `stop`. Once. Raises: KohortError."""
        async with self._client, anyio.create_task_group() as tasks:
            self._tasks = tasks
            while not self._stopping:
                if self._waiting or self._running == self._workers:
                    await self._room.wait(POLL_MS)
                    await self._client.keep_alive()
                else:
                    batch = await self._client.next_batch(timeout_ms=POLL_MS, max_records=self._batch_max)
                    self._waiting += batch
                self._start()
            while self._waiting or self._running:
                await self._room.wait(None)
                self._start()
            await self._client.flush()

    def _start(self) -> None:
        while self._waiting and self._running < self._workers:
            self._running += 1
            self._tasks.start_soon(self._work, self._waiting.popleft())

    async def _work(self, record: ConsumerRecord[bytes, bytes]) -> None:
        try:
            await self._handle(record)
        except KohortError as error:  # Of the marker: the record comes again.
            logger.warning("what became of the record at %s was not kept: %s", record.offset, str(error))
        finally:
            self._running -= 1
            self._room.set()
            self._start()

    async def _handle(self, record: ConsumerRecord[bytes, bytes]) -> None:
        try:
            await self._handler(record)
        except Reject as error:
            self.rejected += 1
            await self._client.reject(record, str(error) or "rejected")
        except Release as error:
            self.released += 1
            await self._client.release(record, error.delay_ms)
        except Exception:
            self.failed += 1
            where = f"{record.topic}-{record.partition} at {record.offset}"
            logger.warning("the handler failed on the record of %s; it comes again", where, exc_info=True)
        else:
            self.done += 1
            await self._client.processed(record)
