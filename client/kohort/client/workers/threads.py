"""A pool of threads with one blocking consumer."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic

from kohort.client.blocking.consumer import Consumer
from kohort.client.consumer_records import PolledOffsets
from kohort.client.errors import CommitFailedError, KohortError
from kohort.client.listener import Partitions, RebalanceListener
from kohort.client.values import AnyRecord, ConsumerRecord, K_co, V_co
from kohort.client.workers.backlog import Work
from kohort.client.workers.errors import HandlerError
from kohort.client.workers.pool import Pool
from kohort.client.workers.settings import POLL_MS, POLL_PAUSED_MS

logger = logging.getLogger(__name__)

Handler = Callable[[ConsumerRecord[K_co, V_co]], object]
ErrorHandler = Callable[[ConsumerRecord[K_co, V_co], Exception], object]


class WorkerPool(Pool[Handler[K_co, V_co], ErrorHandler[K_co, V_co], K_co, V_co], Generic[K_co, V_co]):
    """Handles a group's records with several threads, at least once.

    `order` decides which records are handled one after another. A record is committed when it and all
    before it in its partition are done, every `auto_commit_interval_ms`. A partition with
    `window_max` uncommitted records is paused. Partitions that are revoked are
    drained first: running work has `drain_timeout_ms` to end.

    A handler that raises stops the pool, unless `on_error` takes the record over.
    """

    def _set_up(self) -> None:
        self._changed = threading.Condition()  # Guards the backlog, and is notified when records are done.
        self._stopping = threading.Event()

    def run(self) -> None:
        """Handle records until `stop`, or until one fails; then drain, commit and leave the group. Once.

        Raises: HandlerError, KohortError.
        """
        executor = ThreadPoolExecutor(
            self._settings.workers, f"kohort-worker {self._options.get('group_id')}"
        )
        try:
            with Consumer(
                *self._topics,
                listener=_Listener(self),
                key_deserializer=self._key_deserializer,
                value_deserializer=self._value_deserializer,
                **self._options,
            ) as consumer:
                self._consumer, self._executor = consumer, executor
                try:
                    self._poll()
                finally:
                    self._hand_back(consumer.assignment())
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
        if self._failure is not None:
            raise self._failure from self._failure.__cause__

    def stop(self) -> None:
        """Let `run` end; from any thread, also from a signal handler."""
        self._stopping.set()

    @property
    def waiting(self) -> int:
        """How many records were polled and can't be committed yet."""
        with self._changed:
            return super().waiting

    @property
    def paused(self) -> bool:
        """Whether partitions are not read on for the time being, for too many of their records wait."""
        with self._changed:
            return super().paused

    def _poll(self) -> None:
        interval_s = self._commit_interval_ms / 1000
        commit_at_s = time.monotonic() + interval_s
        while not self._stopping.is_set() and self._failure is None:
            waiting_ms = POLL_PAUSED_MS if self._backlog.is_holding_back else POLL_MS
            records = self._consumer.poll(timeout_ms=waiting_ms)
            with self._changed:
                self._backlog.polled(records.assignments)
                self._backlog.add(records)
                self._dispatch()
                full, roomy = self._backlog.to_pause(), self._backlog.to_resume()
            if full:
                self._consumer.pause(*full)
            if roomy:
                self._consumer.resume(*roomy)
            if time.monotonic() >= commit_at_s:
                self._commit(None)
                commit_at_s = time.monotonic() + interval_s

    def _dispatch(self) -> None:
        """Give the workers available records; the lock is held."""
        while self._running < self._settings.workers and self._failure is None:
            work = self._backlog.start()
            if work is None:
                return
            self._running += 1
            self._executor.submit(self._work, work)

    def _work(self, work: Work) -> None:
        failure = self._handle(work.record)
        with self._changed:
            self._running -= 1
            if failure is None:
                self._backlog.finish(work)
                self._dispatch()
            else:
                self._backlog.give_up(work)
                self._failure = self._failure or failure
            self._changed.notify_all()

    def _handle(self, record: AnyRecord) -> HandlerError | None:
        try:
            try:
                self._handler(record)
            except Exception as error:
                if self._on_error is None:
                    raise
                self._on_error(record, error)
        except BaseException as error:  # noqa: BLE001 - It is the user's code; `run` raises its error.
            failure = HandlerError(record, error)
            failure.__cause__ = error
            return failure
        return None

    def _hand_back(self, partitions: Partitions) -> None:
        """Let running work of these partitions end, commit finished work, and forget the rest."""
        until_s = time.monotonic() + self._settings.drain_timeout_ms / 1000
        with self._changed:
            self._backlog.drop_waiting(partitions)
            while self._unfinished(partitions) and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
        self._commit(partitions)
        with self._changed:
            self._backlog.forget(partitions)

    def _lose(self, partitions: Partitions) -> None:
        with self._changed:
            self._backlog.forget(partitions)

    def _commit(self, partitions: Partitions | None) -> None:
        with self._changed:
            offsets = self._backlog.progress(partitions)
        self._keep_offsets(offsets)

    def _keep_offsets(self, offsets: PolledOffsets) -> None:
        if not offsets:
            return
        try:
            self._consumer.commit(offsets)
        except CommitFailedError as error:
            logger.warning("the group has moved on, records will be handled again: %s", str(error))
            self._keep_offsets(offsets.without(error.partitions))
        except KohortError as error:
            if not error.retriable:
                raise
            logger.warning("a commit failed, the next one will make up for it: %s", str(error))
        else:
            with self._changed:
                self._backlog.committed(offsets)


class _Listener(RebalanceListener):
    def __init__(self, pool: WorkerPool[Any, Any]) -> None:
        self._pool = pool

    def on_revoked(self, partitions: Partitions) -> None:
        self._pool._hand_back(partitions)

    def on_lost(self, partitions: Partitions) -> None:
        self._pool._lose(partitions)
