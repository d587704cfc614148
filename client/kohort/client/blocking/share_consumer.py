"""The blocking share consumer."""

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Generic, Never, Self, Unpack

import anyio

from kohort.client.arguments import CONSUMERS_METHODS, OtherNames, by_name_alone, one_by_one
from kohort.client.blocking.cluster_connection import ClusterConnection
from kohort.client.blocking.one_thread import OneThread, by_one_thread
from kohort.client.cluster_connection import options_with
from kohort.client.consumer_session import CLOSE_TIMEOUT_MS
from kohort.client.errors import KohortError
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.metrics import MetricName
from kohort.client.retry import Deadline
from kohort.client.share.config import ShareConsumerOptions, share_consumer_config
from kohort.client.share.session import ShareSession, log_failure
from kohort.client.share.values import AcknowledgeType, Offsets, ShareRecord
from kohort.client.unclosed import end_soon
from kohort.client.values import K_co, TopicPartition, V_co

AcknowledgementCallback = Callable[[Offsets, KohortError | None], None]


class ShareConsumer(OneThread, OtherNames, Generic[K_co, V_co]):
    """Takes part in the work of a share group (KIP-932): each record goes to one member, until it is done.

    with ShareConsumer("jobs", group_id="workers", bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            ...

    One thread at a time, and ConcurrentAccessError for any other; `wakeup` is for all. In implicit mode a
    record is accepted when the next one is asked for, or the next poll begins; in explicit mode `acknowledge`
    says what became of each. The end of the block sends what was said, gives back the rest, and leaves the
    group.
    """

    _called_here = CONSUMERS_METHODS

    def __init__(
        self,
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        super().__init__()
        one_by_one(topics, str, "ShareConsumer")
        shared = None if cluster is None else cluster.connection
        config = share_consumer_config(
            {
                **options_with(shared, options),
                "key_deserializer": key_deserializer,
                "value_deserializer": value_deserializer,
            }
        )
        self._session = ShareSession(config, None if shared is None else shared.shared)
        self._on_acknowledged = on_acknowledged or log_failure
        self._loop = LoopThread(
            self._session,
            f"kohort-share-consumer {config.group_id}",
            host=None if cluster is None else cluster.loop,
        )
        self._shared = cluster  # As long as this client is held, its connection is.
        self._is_closing = False
        self._not_at_exit = close_at_exit(self._close)
        if topics:
            self.subscribe(*topics)

    def __del__(self) -> None:
        if "_not_at_exit" in self.__dict__ and self._loop.is_running and not self._is_closing:
            self._not_at_exit()
            leave = partial(self._session.leave, CLOSE_TIMEOUT_MS, has_failed=True)
            end_soon(self, self._loop, leave, CLOSE_TIMEOUT_MS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(has_failed=kind is not None)

    @by_one_thread
    def _exit(self, *, has_failed: bool) -> None:
        self._close(has_failed=has_failed)

    @by_one_thread
    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Send what was said, give back the rest and leave the group, within the time.

        In implicit mode what was handed out is accepted. The end of the `with` block does the same; where it
        raises, without what it had in hand. The callback hears of all that was said.
        """
        self._close(timeout_ms)

    def _close(self, timeout_ms: float = CLOSE_TIMEOUT_MS, *, has_failed: bool = False) -> None:
        if not self._loop.is_running or self._is_closing:
            return
        self._is_closing = True
        try:
            self._not_at_exit()
            self._loop.call_to_end(self._leave, timeout_ms, has_failed=has_failed)
        finally:
            self._loop.stop()
        self._tell_all()

    async def _leave(self, timeout_ms: float, *, has_failed: bool) -> None:
        with anyio.move_on_after(timeout_ms / 1000):
            await self._session.leave(timeout_ms, has_failed=has_failed)

    def __repr__(self) -> str:
        state = "" if self._loop.is_running else "closed "
        return f"<{state}ShareConsumer {self._session.describe()}>"

    @by_one_thread
    def subscribe(self, *topics: str) -> None:
        """Take part in the work of these topics. Raises: ConfigurationError without any."""
        self._loop.call_sync(self._session.subscribe, topics)

    @by_one_thread
    def unsubscribe(self) -> None:
        """Send what was said, give back what is in hand, and leave the group."""
        self._loop.call(self._session.unsubscribe)

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the group has it read at the moment, perhaps beside others."""
        return self._session.assignment

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this consumer counts, under the names of Kafka's Java client."""
        return self._session.metrics.read()

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this consumer's without a word, None before the first answer."""
        return self._session.fetcher.lock_timeout_ms

    @by_one_thread
    def poll(
        self, *unnamed: Never, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ShareRecord[K_co, V_co]]:
        """Return records as soon as there are any; none when the time is over.

        What was said before goes with it; in implicit mode all that was handed out is accepted by it.
        Raises: KohortError; WakeupError after `wakeup`.
        """
        if unnamed:
            by_name_alone(unnamed, "poll(timeout_ms=1_000)")
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        most = max_records or self._session.config.max_poll_records
        self._loop.call_sync(self._session.begin_poll)
        while not (records := self._session.take_ready(most)):
            outcome = self._loop.call(self._session.advance, deadline)
            if outcome is not None:
                self._on_acknowledged(outcome.offsets, outcome.error)
            elif self._session.is_over(deadline):
                break
        return records

    def __iter__(self) -> Self:
        return self

    @by_one_thread
    def __next__(self) -> ShareRecord[K_co, V_co]:
        self._session.go_on()
        while (record := self._session.next_ready()) is None:
            self._loop.call_sync(self._session.begin_poll)
            outcome = self._loop.call(self._session.advance, None)
            if outcome is not None:
                self._on_acknowledged(outcome.offsets, outcome.error)
        return record

    def wakeup(self) -> None:
        """End the poll that another thread is in, or its next one, with a WakeupError; from any thread."""
        self._session.wakeup()
        self._loop.call_soon(self._session.notice)

    @by_one_thread
    def acknowledge(
        self,
        record: ShareRecord[K_co, V_co],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # Kafka's word.
    ) -> None:
        """Say what became of a record, in explicit mode; the next poll or commit tells the broker.

        One that is renewed stays with this consumer, to be acknowledged later.
        Raises: NotAcquiredError if it is not this consumer's any more; ConfigurationError in implicit mode.
        """
        self._session.acknowledge(record, type)

    @by_one_thread
    def commit(self) -> None:
        """Send what was said, and return when it is kept; in implicit mode accept all that was handed out.

        Raises: ItemsError with the error of each partition; those records come again.
        """
        try:
            self._loop.call(self._session.commit)
        finally:
            self._tell_all()

    @by_one_thread
    def commit_async(self) -> None:
        """Send what was said in the background; a later poll, commit or close calls `on_acknowledged`."""
        self._loop.call_sync(self._session.commit_soon)

    def _tell_all(self) -> None:
        for each in self._session.take_outcomes():
            self._on_acknowledged(each.offsets, each.error)
