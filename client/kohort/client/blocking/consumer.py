"""The blocking consumer."""

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Generic, Never, Self, TypeVar, Unpack

from kohort.client import consumer
from kohort.client.arguments import by_name_alone
from kohort.client.batches import FetchedBatch
from kohort.client.blocking.client import blocking, directly, in_loop
from kohort.client.blocking.cluster_connection import ClusterConnection, connection_of
from kohort.client.blocking.one_thread import by_one_thread, in_use
from kohort.client.blocking.polling import BlockingPollingClient
from kohort.client.commits import CommitOutcome
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import ConsumerRecords
from kohort.client.consumer_session import TABLE_BYTES, ConsumerSession, Due
from kohort.client.extras import require_arrow
from kohort.client.handovers import tell_listener
from kohort.client.listener import RebalanceListener
from kohort.client.retry import Deadline
from kohort.client.session import CLOSE_TIMEOUT_MS
from kohort.client.values import AnyRecord, ConsumerRecord, K_co, V_co

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.client.commits import Commitable, Offsets
    from kohort.client.errors import KohortError

    CommitCallback = Callable[[Offsets, KohortError | None], None]

Part = TypeVar("Part")


class Consumer(BlockingPollingClient[consumer.Consumer[K_co, V_co]], Generic[K_co, V_co]):
    """Reads records, as a member of a group or alone.

    with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            ...

    One thread at a time uses it; any other gets ConcurrentAccessError. Any thread may call `wakeup`, and the
    methods that return known values without a request. Heartbeats are sent in a separate thread. `close`, or
    the end of the block, commits, if enable_auto_commit is on, and leaves the group; where the block raises,
    the records that it had in hand are not committed.
    """

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        client = consumer.Consumer(
            *topics,
            listener=listener,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            cluster=connection_of(cluster),
            **options,
        )
        self._session: ConsumerSession = client._session
        self._handovers = client._handovers
        self._buffer = self._session.fetcher.buffer
        self._listener = listener or RebalanceListener()
        super().__init__(client, f"kohort-consumer {self._session.config.group_id or ''}".rstrip(), cluster)
        if topics:
            self.subscribe(*topics)

    @by_one_thread
    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, leave the group, and end, within the time.

        `leave_group` decides whether its partitions are reassigned at once; without it a static member stays,
        and any other leaves (KIP-1092).
        The listener is called for the revoked partitions; callbacks of commits in flight are called.
        Raises: an error of the listener or a callback, after everything is closed.
        """
        self._close(timeout_ms, leave_group=leave_group)

    @by_one_thread
    def subscribe(
        self, *topics: str, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe to these topics, or to those whose whole name matches `pattern`, with the group's other
        members.

        A `listener` replaces the previous one. Raises: ConfigurationError.
        """
        self._loop.call_sync(self._client.subscribe, *topics, pattern=pattern, listener=listener)
        self._listener = listener or self._listener

    @by_one_thread
    def unsubscribe(self) -> None:
        """Commit if enable_auto_commit is on, leave the group, and read nothing; the listener is called."""
        self._tell_of_leaving()
        self._loop.call(self._session.unsubscribe)

    def poll(
        self, *unnamed: Never, timeout_ms: float | None = None, max_records: int | None = None
    ) -> ConsumerRecords[K_co, V_co]:
        """Return records as soon as there are any; none at the timeout.

        Rebalances run inside, and automatic commits start here.
        Raises: KohortError; WakeupError after `wakeup`.
        """
        if unnamed:
            by_name_alone(unnamed, "poll(timeout_ms=1_000)")
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        most = max_records or self._session.config.max_poll_records
        me = get_ident()
        inside = self._inside
        if inside and inside != me:
            raise in_use(inside)
        try:
            self._inside = me  # As by_one_thread does it, without its call.
            commits = self._session.commits
            assignments = commits.assignments  # First: the loop may notice that a topic was recreated.
            while not (records := self._take_ready(most)) and self._go_on(deadline):
                assignments = commits.assignments
        finally:
            self._inside = inside
        return self._session.commits.bind(records, assignments)

    def _take_ready(self, most: int) -> list[AnyRecord]:
        """Return available records, without waiting; the loop learns that memory is free."""
        if not self._loop.is_running:
            return []
        try:
            return self._session.take_ready(most)
        finally:
            if self._session.fetcher.is_hungry:
                self._loop.call_soon(self._session.fetcher.wake)

    @by_one_thread
    def poll_arrow(self, *, timeout_ms: float | None = None, max_bytes: int = TABLE_BYTES) -> "pa.Table":
        """Return records as a table, as soon as there are any; an empty table at the timeout.

        It has about `max_bytes` of keys and values. Otherwise this is `poll`. Raises: MissingExtraError
        without pyarrow; KohortError; WakeupError.
        """
        table_of = require_arrow()
        return table_of(self._poll_bytes(self._session.take_columns, timeout_ms, max_bytes))

    @by_one_thread
    def poll_batches(
        self, *, timeout_ms: float | None = None, max_bytes: int = TABLE_BYTES
    ) -> list[FetchedBatch]:
        """Return batches with their records still encoded, as soon as there are any; none at the timeout.

        They have about `max_bytes`. Otherwise this is `poll`. Raises: KohortError; WakeupError.
        """
        return self._poll_bytes(self._session.take_batches, timeout_ms, max_bytes)

    def _poll_bytes(
        self, take: Callable[[int], list[Part]], timeout_ms: float | None, max_bytes: int
    ) -> list[Part]:
        """Return what `take` finds as soon as there is something; nothing at the timeout."""
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        while True:
            found = take(max_bytes)
            if self._session.fetcher.is_hungry:
                self._loop.call_soon(self._session.fetcher.wake)
            if found or not self._go_on(deadline):
                return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K_co, V_co]:
        me = get_ident()
        inside = self._inside
        if inside and inside != me:
            raise in_use(inside)
        session, buffer = self._session, self._buffer
        try:
            self._inside = me  # As by_one_thread does it, without its call.
            while True:
                if self._loop.is_running:
                    record = session.next_ready()
                    if buffer.is_hungry:
                        self._loop.call_soon(session.fetcher.wake)
                    if record is not None:
                        return record
                self._go_on(None)
        finally:
            self._inside = inside

    def _go_on(self, deadline: Deadline | None) -> bool:
        """Wait until there is something to do, and do it. Return False at the poll's timeout."""
        due = self._loop.call(self._session.advance, deadline)
        if due is None:
            return not self._session.is_over(deadline)
        return self._attend_to(due, deadline)

    def _attend_to(self, due: Due, deadline: Deadline | None) -> bool:
        """Do what is due; return whether there was enough time."""
        if isinstance(due, CommitOutcome):
            due.callback(due.offsets, due.error)
            return True
        partitions = self._loop.call(self._handovers.begin, due, deadline)
        if partitions is None:
            return False
        tell_listener(self._listener, due, partitions)
        self._loop.call_sync(self._handovers.end, due)
        return True

    def _tell_of_leaving(self) -> None:
        farewell = self._session.farewell()
        if farewell is not None:
            tell_listener(self._listener, farewell, self._session.positions.partitions())

    def _call_back(self) -> None:
        outcomes = self._session.commits.outcomes
        while outcomes:
            self._attend_to(outcomes.popleft(), None)

    assign = by_one_thread(in_loop(consumer.Consumer.assign))
    assignment = directly(consumer.Consumer.assignment)
    subscription = directly(consumer.Consumer.subscription)
    enforce_rebalance = by_one_thread(in_loop(consumer.Consumer.enforce_rebalance))
    group_metadata = directly(consumer.Consumer.group_metadata)

    @by_one_thread
    def commit(self, offsets: "Commitable" = None) -> None:
        """Commit these offsets, those after these records, or the position.

        Return when the broker has stored it.
        A commit during a rebalance is repeated after it, if its partitions are kept.
        Raises: CommitFailedError, with the partitions, when the group has moved on;
        RebalanceInProgressError when the rebalance takes longer than default_api_timeout_ms.
        """
        self._loop.call(self._client.commit, offsets)
        self._call_back()

    @by_one_thread
    def commit_async(self, offsets: "Commitable" = None, callback: "CommitCallback | None" = None) -> None:
        """Commit these offsets, those after these records, or the position, in the background.

        It is not retried. A later poll, commit or close calls `callback(offsets, error)`; without one, a
        failure is logged.
        Raises: CommitFailedError if a partition is not this consumer's.
        """
        self._loop.call_sync(self._client.commit_async, offsets, callback)

    committed = by_one_thread(blocking(consumer.Consumer.committed))
    position = by_one_thread(blocking(consumer.Consumer.position))
    current_lag = directly(consumer.Consumer.current_lag)
    seek = by_one_thread(in_loop(consumer.Consumer.seek))
    seek_to_beginning = by_one_thread(in_loop(consumer.Consumer.seek_to_beginning))
    seek_to_end = by_one_thread(in_loop(consumer.Consumer.seek_to_end))
    pause = by_one_thread(in_loop(consumer.Consumer.pause))
    resume = by_one_thread(in_loop(consumer.Consumer.resume))
    paused = directly(consumer.Consumer.paused)
    partitions_for = by_one_thread(blocking(consumer.Consumer.partitions_for))
    list_topics = by_one_thread(blocking(consumer.Consumer.list_topics))
    beginning_offsets = by_one_thread(blocking(consumer.Consumer.beginning_offsets))
    end_offsets = by_one_thread(blocking(consumer.Consumer.end_offsets))
    offsets_for_times = by_one_thread(blocking(consumer.Consumer.offsets_for_times))
