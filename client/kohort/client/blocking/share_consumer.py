"""The blocking share consumer."""

from collections.abc import Callable
from typing import Generic, Never, Self, Unpack

from kohort.client.arguments import by_name_alone
from kohort.client.blocking.client import directly, in_loop
from kohort.client.blocking.cluster_connection import ClusterConnection, connection_of
from kohort.client.blocking.one_thread import by_one_thread
from kohort.client.blocking.polling import BlockingPollingClient
from kohort.client.errors import KohortError
from kohort.client.retry import Deadline
from kohort.client.session import CLOSE_TIMEOUT_MS
from kohort.client.share import consumer
from kohort.client.share.config import ShareConsumerOptions
from kohort.client.share.session import log_failure
from kohort.client.share.values import AcknowledgeType, Offsets, ShareRecord
from kohort.client.values import K_co, V_co

AcknowledgementCallback = Callable[[Offsets, KohortError | None], None]


class ShareConsumer(BlockingPollingClient[consumer.ShareConsumer[K_co, V_co]], Generic[K_co, V_co]):
    """Takes part in the work of a share group (KIP-932): each record goes to one member, until it is done.

    with ShareConsumer("jobs", group_id="workers", bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            ...

    One thread at a time uses it; any other gets ConcurrentAccessError. Any thread may call `wakeup`. In
    implicit mode a record is accepted when the next one is requested, or the next poll starts; in explicit
    mode `acknowledge` gives the result of each. The end of the block sends the acknowledgements, releases the
    other records, and leaves the group.
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
        client = consumer.ShareConsumer(
            *topics,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            cluster=connection_of(cluster),
            **options,
        )
        self._session = client._session
        self._on_acknowledged = on_acknowledged or log_failure
        super().__init__(client, f"kohort-share-consumer {self._session.config.group_id}", cluster)
        if topics:
            self.subscribe(*topics)

    @by_one_thread
    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Send the acknowledgements, release the other records and leave the group, within the time.

        In implicit mode the returned records are accepted. The end of the `with` block does the
        same; if it raises, the unfinished records are not accepted. The callback gets all
        acknowledgements.
        """
        self._close(timeout_ms)

    subscribe = by_one_thread(in_loop(consumer.ShareConsumer.subscribe))
    subscription = directly(consumer.ShareConsumer.subscription)
    assignment = directly(consumer.ShareConsumer.assignment)

    @by_one_thread
    def unsubscribe(self) -> None:
        """Send the acknowledgements, release the other records, and leave the group."""
        self._loop.call(self._session.unsubscribe)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record stays locked for this consumer, None before the first answer."""
        return self._client.acquisition_lock_timeout_ms

    @by_one_thread
    def poll(
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
        self._session.accept_last()
        while (record := self._session.next_ready()) is None:
            self._loop.call_sync(self._session.begin_poll)
            outcome = self._loop.call(self._session.advance, None)
            if outcome is not None:
                self._on_acknowledged(outcome.offsets, outcome.error)
        return record

    @by_one_thread
    def acknowledge(
        self,
        record: ShareRecord[K_co, V_co],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # Kafka's name.
    ) -> None:
        """Acknowledge a record, in explicit mode; the next poll or commit sends it to the broker.

        A record that is renewed stays with this consumer, to be acknowledged later.
        Raises: NotAcquiredError if its acquisition has ended; ConfigurationError in implicit mode.
        """
        self._session.acknowledge(record, type)

    @by_one_thread
    def commit(self) -> None:
        """Send the acknowledgements, and return when they are kept. In implicit mode it accepts all records
        that were handed out.

        Raises: ItemsError with the error of each partition; those records are redelivered.
        """
        try:
            self._loop.call(self._session.commit)
        finally:
            self._call_back()

    commit_async = by_one_thread(in_loop(consumer.ShareConsumer.commit_async))

    def _call_back(self) -> None:
        for each in self._session.take_outcomes():
            self._on_acknowledged(each.offsets, each.error)
