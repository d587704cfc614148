"""The asynchronous consumer, under trio and asyncio."""

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Never, Self, TypeVar, Unpack

from anyio.lowlevel import checkpoint

from kohort.client.arguments import by_name_alone, check_listener, one_by_one
from kohort.client.batches import FetchedBatch
from kohort.client.cluster_connection import ClusterConnection, hub_of, options_with
from kohort.client.commits import Commitable, CommitCallback, CommitOutcome
from kohort.client.config import ConsumerOptions, consumer_config
from kohort.client.consumer_records import ConsumerRecords
from kohort.client.consumer_session import NO_GROUP, TABLE_BYTES, ConsumerSession, Due
from kohort.client.errors import ConfigurationError
from kohort.client.extras import require_arrow
from kohort.client.handovers import Handovers, tell_listener
from kohort.client.listener import AsyncRebalanceListener, Listener
from kohort.client.member import place_in_group
from kohort.client.membership import Handover
from kohort.client.offsets import fetch_committed
from kohort.client.polling import AsyncPollingClient
from kohort.client.retry import Deadline
from kohort.client.seeks import PositionCalls
from kohort.client.session import CLOSE_TIMEOUT_MS
from kohort.client.values import (
    AnyRecord,
    ConsumerRecord,
    GroupMetadata,
    K_co,
    OffsetAndMetadata,
    TopicPartition,
    V_co,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

Part = TypeVar("Part")
ENFORCED = "rebalance enforced by user"


class Consumer(AsyncPollingClient[ConsumerSession], PositionCalls, Generic[K_co, V_co]):
    """Reads records, as a member of a group or alone.

    async with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
        async for record in consumer:
            ...

    Inside `async with`, or between `start` and `stop`, and by one task at a time. Heartbeats go on in the
    background. Leaving the block commits, if enable_auto_commit is on, and leaves the group.
    """

    def __init__(
        self,
        *topics: str,
        listener: Listener | None = None,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        one_by_one(topics, str, "Consumer")
        if listener is not None:
            check_listener(listener)
        deserializers = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        config = consumer_config(options_with(cluster, options, **deserializers))
        if topics and config.group_id is None:
            raise ConfigurationError(NO_GROUP)
        super().__init__(ConsumerSession(config, hub_of(cluster)), cluster)
        self._listener: Listener = listener or AsyncRebalanceListener()
        self._handovers = Handovers(self._session)
        self._first_topics = topics
        self._owes_turn = False  # The background has something to do, and had no turn yet.

    def _subscribe_at_first(self) -> None:
        if self._first_topics:
            self._session.subscribe(self._first_topics, None)

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic and leave the group, within the time, even if cancelled.

        `leave_group` decides whether its partitions are reassigned at once; without it a static member stays,
        and any other leaves (KIP-1092).
        The listener is called for the revoked partitions; callbacks of commits in flight are called.
        The end of the `async with` block does the same; if it raises, without the unfinished records.
        """
        await self._close(timeout_ms, leave_group=leave_group)

    def subscribe(self, *topics: str, pattern: str | None = None, listener: Listener | None = None) -> None:
        """Subscribe to these topics, or to those whose whole name matches `pattern`, with the group's other
        members.

        A `listener`, with plain or with async methods, replaces the previous one.
        Raises: ConfigurationError.
        """
        if listener is not None:
            check_listener(listener)
        compiled = None if pattern is None else re.compile(pattern)
        self._listener = listener or self._listener
        self._session.subscribe(topics, compiled)

    async def unsubscribe(self) -> None:
        """Commit if enable_auto_commit is on, leave the group, and read nothing; the listener is called.

        A cancelled call continues to its end, for some seconds at most.
        """
        self._session.check_loop()
        await self._session.complete(self._unsubscribe)

    async def _unsubscribe(self) -> None:
        await self._tell_of_leaving()
        await self._session.unsubscribe()

    async def _tell_of_leaving(self) -> None:
        farewell = self._session.farewell()
        if farewell is not None:
            await self._call_listener(farewell, self._session.positions.partitions())

    def assign(self, *partitions: TopicPartition) -> None:
        """Read these partitions without a group."""
        self._session.assign(partitions)

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer reads at the moment."""
        return self._session.positions.partitions()

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    async def poll(
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
        self._session.check_loop()
        await checkpoint()  # The background has its turn, even if there are always records.
        while not (records := self._take_ready(most)) and await self._go_on(deadline):
            pass
        return ConsumerRecords(records, self._session.commits.assignments)

    def _take_ready(self, most: int) -> list[AnyRecord]:
        if self._is_closed:
            return []
        try:
            return self._session.take_ready(most)
        finally:
            if self._session.fetcher.is_hungry:
                self._session.fetcher.wake()

    async def poll_arrow(
        self, *, timeout_ms: float | None = None, max_bytes: int = TABLE_BYTES
    ) -> "pa.Table":
        """Return records as a table, as soon as there are any; an empty table at the timeout.

        It has about `max_bytes` of keys and values. Otherwise this is `poll`. Raises: MissingExtraError
        without pyarrow; KohortError; WakeupError.
        """
        table_of = require_arrow()
        return table_of(await self._poll_bytes(self._session.take_columns, timeout_ms, max_bytes))

    async def poll_batches(
        self, *, timeout_ms: float | None = None, max_bytes: int = TABLE_BYTES
    ) -> list[FetchedBatch]:
        """Return batches with their records still encoded, as soon as there are any; none at the timeout.

        They have about `max_bytes`. Otherwise this is `poll`. Raises: KohortError; WakeupError.
        """
        return await self._poll_bytes(self._session.take_batches, timeout_ms, max_bytes)

    async def _poll_bytes(
        self, take: Callable[[int], list[Part]], timeout_ms: float | None, max_bytes: int
    ) -> list[Part]:
        """Return what `take` finds as soon as there is something; nothing at the timeout."""
        self._session.check_loop()
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        await checkpoint()
        while True:
            found = take(max_bytes)
            if self._session.fetcher.is_hungry:
                self._session.fetcher.wake()
            if found or not await self._go_on(deadline):
                return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K_co, V_co]:
        session = self._session
        if self._owes_turn:
            self._owes_turn = False
            # Before records are taken: the next fetch is sent while the user handles them.
            await checkpoint()
        while True:
            if not self._is_closed:
                record = session.next_ready()
                if session.fetcher.buffer.is_hungry:
                    session.fetcher.wake()
                    self._owes_turn = True
                if record is not None:
                    return record
            await self._go_on(None)

    async def _go_on(self, deadline: Deadline | None) -> bool:
        """Wait until there is something to do, and do it. Return False at the poll's timeout."""
        self._check_open()
        due = await self._session.advance(deadline)
        if due is None:
            return not self._session.is_over(deadline)
        return await self._attend_to(due, deadline)

    async def _attend_to(self, due: Due, deadline: Deadline | None) -> bool:
        """Do what is due; return whether there was enough time."""
        if isinstance(due, CommitOutcome):
            called = due.callback(due.offsets, due.error)
            if called is not None:
                await called
            return True
        partitions = await self._handovers.begin(due, deadline)
        if partitions is None:
            return False
        await self._call_listener(due, partitions)
        self._handovers.end(due)
        return True

    async def _call_listener(self, handover: Handover, partitions: tuple[TopicPartition, ...]) -> None:
        told = tell_listener(self._listener, handover, partitions)
        if told is not None:
            await told

    async def _call_back(self) -> None:
        while self._session.commits.outcomes:
            await self._attend_to(self._session.commits.outcomes.popleft(), None)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group rebalance, for a reason that the broker keeps.

        Raises: ConfigurationError without a subscription.
        """
        session = self._session
        if session.membership is None or not session.is_subscribed:
            raise ConfigurationError("there is nothing to rebalance without a subscription")
        if session.config.group_protocol != "classic":
            logger.warning(
                "enforce_rebalance does nothing: with group_protocol='consumer' the broker decides"
            )
            return
        session.membership.rejoin(reason or ENFORCED)
        session.changed()

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's place in its group, as a transaction needs it.

        It is the place that it had when it last polled: if it was thrown out since, the broker refuses the
        transaction's offsets. Raises: ConfigurationError without a group_id.
        """
        session = self._session
        return place_in_group(
            session.config, self._require_group("group_metadata"), *session.member_at_last_poll()
        )

    async def commit(self, offsets: Commitable = None) -> None:
        """Commit these offsets, those after these records, or the position.

        Return when the broker has stored it.
        A commit during a rebalance is repeated after it, if its partitions are kept.
        Raises: CommitFailedError, with the partitions, when the group has moved on;
        RebalanceInProgressError when the rebalance takes longer than default_api_timeout_ms.
        """
        self._session.check_loop()
        deadline = Deadline(self._session.config.default_api_timeout_ms)
        await self._session.commits.commit(offsets, deadline)

    def commit_async(self, offsets: Commitable = None, callback: CommitCallback | None = None) -> None:
        """Commit these offsets, those after these records, or the position, in the background.

        It is not retried. A later poll or close calls, and awaits, `callback(offsets, error)`; without one,
        a failure is logged.
        Raises: CommitFailedError if a partition is not this consumer's.
        """
        self._session.check_loop()
        self._session.commits.commit_soon(offsets, callback)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the group has committed for these partitions."""
        wanted = [TopicPartition(*each) for each in one_by_one(partitions, tuple, "committed")]
        group_id, session = self._require_group("committed"), self._session
        found = await session.cluster.retrying(
            lambda: fetch_committed(
                session.cluster, group_id, wanted, require_stable=True, member=session.reader()
            )
        )
        return {each: found.get(each) for each in wanted}

    def _require_group(self, what: str) -> str:
        group_id = self._session.config.group_id
        if group_id is None:
            raise ConfigurationError(f"{what} needs a group_id")
        return group_id
