"""The asynchronous share consumer, under trio and asyncio."""

from collections.abc import Callable
from typing import Generic, Never, Self, Unpack

from anyio.lowlevel import checkpoint

from kohort.client.arguments import by_name_alone, one_by_one
from kohort.client.cluster_connection import ClusterConnection, hub_of, options_with
from kohort.client.polling import AsyncPollingClient
from kohort.client.retry import Deadline
from kohort.client.session import CLOSE_TIMEOUT_MS
from kohort.client.share.config import ShareConsumerOptions, share_consumer_config
from kohort.client.share.session import ShareSession, log_failure
from kohort.client.share.values import AcknowledgementCallback, AcknowledgeType, Outcome, ShareRecord
from kohort.client.values import K_co, TopicPartition, V_co


class ShareConsumer(AsyncPollingClient[ShareSession], Generic[K_co, V_co]):
    """Takes part in the work of a share group (KIP-932): each record goes to one member, until it is done.

    async with ShareConsumer("jobs", group_id="workers", bootstrap_servers="localhost:9092") as consumer:
        async for record in consumer:
            ...

    Inside `async with`, or between `start` and `stop`, and by one task at a time. In implicit mode a record
    is accepted when the next one is requested, or the next poll starts; in explicit mode `acknowledge` gives
    the result of each. Leaving the block sends the acknowledgements, releases all other records, and leaves
    the group.
    """

    def __init__(
        self,
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        one_by_one(topics, str, "ShareConsumer")
        deserializers = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        config = share_consumer_config(options_with(cluster, options, **deserializers))
        super().__init__(ShareSession(config, hub_of(cluster)), cluster)
        self._on_acknowledged = on_acknowledged or log_failure
        self._first_topics = topics

    def _subscribe_at_first(self) -> None:
        if self._first_topics:
            self._session.subscribe(self._first_topics)

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Send the acknowledgements, release all other records and leave the group, within the time.

        It does so even if it is cancelled. In implicit mode the records that were handed out are accepted.
        The end of the `async with` block does the same; if it raises, the unfinished records are not
        accepted. The callback gets all acknowledgements.
        """
        await self._close(timeout_ms)

    def subscribe(self, *topics: str) -> None:
        """Take part in the work of these topics. Raises: ConfigurationError without any."""
        self._session.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Send the acknowledgements, release acquired records, and leave the group.

        A cancelled call continues to its end, for some seconds at most.
        """
        self._session.check_loop()
        await self._session.complete(self._session.unsubscribe)

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions assigned at the moment, which other members may share."""
        return self._session.assignment

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is acquired without an acknowledgement, None before the first answer."""
        return self._session.fetcher.lock_timeout_ms

    async def poll(
        self, *unnamed: Never, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ShareRecord[K_co, V_co]]:
        """Return records as soon as there are any; none at the timeout.

        Acknowledgements are sent with it; in implicit mode it accepts all records that were handed out.
        Raises: KohortError; WakeupError after `wakeup`.
        """
        if unnamed:
            by_name_alone(unnamed, "poll(timeout_ms=1_000)")
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        most = max_records or self._session.config.max_poll_records
        self._check_open()
        self._session.begin_poll()
        await checkpoint()
        while not (records := self._session.take_ready(most)):
            outcome = await self._session.advance(deadline)
            if outcome is not None:
                await self._call_on_acknowledged(outcome)
            elif self._session.is_over(deadline):
                break
        return records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord[K_co, V_co]:
        self._session.accept_last()
        await checkpoint()
        while (record := self._session.next_ready()) is None:
            self._check_open()
            self._session.begin_poll()
            outcome = await self._session.advance(None)
            if outcome is not None:
                await self._call_on_acknowledged(outcome)
        return record

    def acknowledge(
        self,
        record: ShareRecord[K_co, V_co],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record, in explicit mode; the next poll or commit sends it to the broker.

        One that is renewed stays with this consumer, to be acknowledged later.
        Raises: NotAcquiredError if its acquisition has ended; ConfigurationError in implicit mode.
        """
        self._session.acknowledge(record, type)

    async def commit(self) -> None:
        """Send the acknowledgements, and return when they are kept. In implicit mode it accepts all records.

        Raises: ItemsError with the error of each partition; those records are redelivered.
        """
        self._check_open()
        try:
            await self._session.commit()
        finally:
            await self._call_back()

    def commit_async(self) -> None:
        """Send the acknowledgements in the background; a later call runs `on_acknowledged`."""
        self._check_open()
        self._session.commit_soon()

    async def _call_back(self) -> None:
        for each in self._session.take_outcomes():
            await self._call_on_acknowledged(each)

    async def _call_on_acknowledged(self, outcome: Outcome) -> None:
        called = self._on_acknowledged(outcome.offsets, outcome.error)
        if called is not None:
            await called
