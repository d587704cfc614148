"""A pool of tasks with one asynchronous consumer, under trio and asyncio."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic

import anyio

from kohort.client.completion import complete
from kohort.client.consumer import Consumer
from kohort.client.consumer_records import PolledOffsets
from kohort.client.errors import CommitFailedError, KohortError
from kohort.client.listener import AsyncRebalanceListener, Partitions
from kohort.client.retry import monotonic_ms
from kohort.client.session import CLOSE_TIMEOUT_MS
from kohort.client.signal import Signal
from kohort.client.values import AnyRecord, ConsumerRecord, K_co, V_co
from kohort.client.workers.backlog import Work
from kohort.client.workers.errors import HandlerError
from kohort.client.workers.pool import Pool
from kohort.client.workers.settings import POLL_MS, POLL_PAUSED_MS

logger = logging.getLogger(__name__)

AsyncHandler = Callable[[ConsumerRecord[K_co, V_co]], Awaitable[object]]
AsyncErrorHandler = Callable[[ConsumerRecord[K_co, V_co], Exception], Awaitable[object]]


class AsyncWorkerPool(
    Pool[AsyncHandler[K_co, V_co], AsyncErrorHandler[K_co, V_co], K_co, V_co], Generic[K_co, V_co]
):
    """Handles a group's records with several tasks; otherwise like `WorkerPool`.

    Cancelling `run` cancels the handlers, and commits finished work.
    """

    def _set_up(self) -> None:
        self._done = Signal()
        self._stopping = False
        self._handling: dict[anyio.CancelScope, None] = {}

    async def run(self) -> None:
        """Handle records until `stop`, or until one fails; then drain, commit and leave the group. Once.

        Raises: HandlerError, KohortError.
        """
        error: KohortError | None = None
        patience_ms = self._settings.drain_timeout_ms + CLOSE_TIMEOUT_MS
        async with anyio.create_task_group() as tasks:
            try:
                await complete(tasks, self._serve, patience_ms=patience_ms, on_cancelled=self._give_up)
            except KohortError as raised:  # By itself, not within a group of one exception.
                error = raised
        if error is not None:
            raise error
        if self._failure is not None:
            raise self._failure from self._failure.__cause__

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            async with Consumer(
                *self._topics,
                listener=_Listener(self),
                key_deserializer=self._key_deserializer,
                value_deserializer=self._value_deserializer,
                **self._options,
            ) as consumer:
                self._consumer = consumer
                await self._poll()
                await self._hand_back(consumer.assignment())
            self._cancel_handlers()  # Those that did not end in time.

    def _give_up(self) -> None:
        self.stop()
        self._cancel_handlers()

    def _cancel_handlers(self) -> None:
        for scope in self._handling:
            scope.cancel()

    def stop(self) -> None:
        """Let `run` end."""
        self._stopping = True

    async def _poll(self) -> None:
        commit_at_ms = monotonic_ms() + self._commit_interval_ms
        while not self._stopping and self._failure is None:
            waiting_ms = POLL_PAUSED_MS if self._backlog.is_holding_back else POLL_MS
            records = await self._consumer.poll(timeout_ms=waiting_ms)
            self._backlog.polled(records.assignments)
            self._backlog.add(records)
            self._dispatch()
            if full := self._backlog.to_pause():
                self._consumer.pause(*full)
            if roomy := self._backlog.to_resume():
                self._consumer.resume(*roomy)
            if monotonic_ms() >= commit_at_ms:
                await self._commit(None)
                commit_at_ms = monotonic_ms() + self._commit_interval_ms

    def _dispatch(self) -> None:
        """Start as many handlers as may run."""
        while self._running < self._settings.workers and self._failure is None:
            work = self._backlog.start()
            if work is None:
                return
            self._running += 1
            self._tasks.start_soon(self._work, work)

    async def _work(self, work: Work) -> None:
        failure: HandlerError | None = None
        with anyio.CancelScope() as scope:
            self._handling[scope] = None
            failure = await self._handle(work.record)
            self._failure = self._failure or failure
        del self._handling[scope]
        self._running -= 1
        if scope.cancelled_caught or failure is not None:
            self._backlog.give_up(work)
        else:
            self._backlog.finish(work)
            self._dispatch()
        self._done.set()

    async def _handle(self, record: AnyRecord) -> HandlerError | None:
        try:
            try:
                await self._handler(record)
            except Exception as error:
                if self._on_error is None:
                    raise
                await self._on_error(record, error)
        except Exception as error:  # noqa: BLE001 - It is the user's code; `run` raises its error.
            failure = HandlerError(record, error)
            failure.__cause__ = error
            return failure
        return None

    async def _hand_back(self, partitions: Partitions) -> None:
        """Let running work of these partitions end, commit finished work, and forget the rest."""
        self._backlog.drop_waiting(partitions)
        with anyio.move_on_after(self._settings.drain_timeout_ms / 1000):
            while self._unfinished(partitions):
                await self._done.wait(None)
        await self._commit(partitions)
        self._backlog.forget(partitions)

    def _lose(self, partitions: Partitions) -> None:
        self._backlog.forget(partitions)

    async def _commit(self, partitions: Partitions | None) -> None:
        offsets = self._backlog.progress(partitions)
        await self._keep_offsets(offsets)

    async def _keep_offsets(self, offsets: PolledOffsets) -> None:
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except CommitFailedError as error:
            logger.warning("the group has moved on, records will be handled again: %s", str(error))
            await self._keep_offsets(offsets.without(error.partitions))
        except KohortError as error:
            if not error.retriable:
                raise
            logger.warning("a commit failed, the next one will make up for it: %s", str(error))
        else:
            self._backlog.committed(offsets)


class _Listener(AsyncRebalanceListener):
    def __init__(self, pool: AsyncWorkerPool[Any, Any]) -> None:
        self._pool = pool

    async def on_revoked(self, partitions: Partitions) -> None:
        await self._pool._hand_back(partitions)

    async def on_lost(self, partitions: Partitions) -> None:
        self._pool._lose(partitions)
