"""The asynchronous consumer, under trio and asyncio."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, Self, Unpack

import anyio
from anyio.lowlevel import checkpoint

from kohort.client.any_thread import from_any_thread
from kohort.client.arguments import CONSUMERS_METHODS, OtherNames, by_name_alone, check_listener, one_by_one
from kohort.client.cluster_connection import ClusterConnection, options_with
from kohort.client.commits import Commitable, CommitCallback, CommitOutcome
from kohort.client.config import ConsumerOptions, consumer_config
from kohort.client.consumer_records import ConsumerRecords
from kohort.client.consumer_session import CLOSE_TIMEOUT_MS, NO_GROUP, TABLE_BYTES, ConsumerSession, Due
from kohort.client.errors import ClosedError, ConfigurationError
from kohort.client.extras import require_arrow
from kohort.client.listener import AsyncRebalanceListener, RebalanceListener
from kohort.client.membership import Assign, Lose, Revoke
from kohort.client.metrics import MetricName
from kohort.client.offsets import EARLIEST, LATEST
from kohort.client.retry import Deadline
from kohort.client.start_stop import StartStop
from kohort.client.unclosed import no_words
from kohort.client.values import (
    AnyRecord,
    ConsumerRecord,
    GroupMetadata,
    K_co,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    V_co,
)

if TYPE_CHECKING:
    import pyarrow as pa

Listener = AsyncRebalanceListener | RebalanceListener


class Consumer(StartStop, OtherNames, Generic[K_co, V_co]):
    """Reads records, as a member of a group or alone.

    async with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
        async for record in consumer:
            ...

    Inside `async with`, or between `start` and `stop`, and by one task at a time. Heartbeats go on in the
    background. Leaving the block commits, if enable_auto_commit is on, and leaves the group.
    """

    _called_here = CONSUMERS_METHODS

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
        config = consumer_config(
            {
                **options_with(cluster, options),
                "key_deserializer": key_deserializer,
                "value_deserializer": value_deserializer,
            }
        )
        if topics and config.group_id is None:
            raise ConfigurationError(NO_GROUP)
        self._shared = cluster  # As long as this client is held, its connection is.
        self._session = ConsumerSession(config, None if cluster is None else cluster.shared)
        self._seeks = self._session.seeks
        self._listener: Listener = listener or AsyncRebalanceListener()
        self._first_topics = topics
        self._is_closed = False
        self._owes_turn = False  # The background has something to do, and had no turn yet.
        self._from_any_thread: Callable[[Callable[[], None]], None] | None = None

    def __del__(self) -> None:
        if "_open" in self.__dict__:
            leave = partial(self._session.leave, CLOSE_TIMEOUT_MS, has_failed=True)
            self._open.end_soon(self, no_words if self._is_closed else leave, CLOSE_TIMEOUT_MS)

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        self._from_any_thread = from_any_thread()
        self._open = self._session.open_tasks()
        if self._first_topics:
            self._session.subscribe(self._first_topics, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(has_failed=kind is not None)
        finally:
            await self._session.__aexit__(kind, error, trace)

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic and leave the group, within the time, even if cancelled.

        `leave_group` says whether its partitions go to others at once; without it a static member stays, and
        any other leaves (KIP-1092).
        The listener hears of what is given up; callbacks of commits that are in flight are called.
        The end of the `async with` block does the same; where it raises, without what it had in hand.
        """
        await self._close(timeout_ms, leave_group=leave_group)

    async def _close(
        self,
        timeout_ms: float = CLOSE_TIMEOUT_MS,
        *,
        has_failed: bool = False,
        leave_group: bool | None = None,
    ) -> None:
        if self._is_closed:
            return
        self._session.check_loop()
        self._is_closed = True
        leave = partial(self._leave, timeout_ms, has_failed=has_failed, leave_group=leave_group)
        await self._session.complete(leave, patience_ms=timeout_ms)

    async def _leave(self, timeout_ms: float, *, has_failed: bool, leave_group: bool | None) -> None:
        with anyio.move_on_after(timeout_ms / 1000):
            try:
                await self._say_farewell()
            finally:
                await self._session.leave(timeout_ms, has_failed=has_failed, leave_group=leave_group)
            while self._session.commits.outcomes:
                await self._attend_to(self._session.commits.outcomes.popleft(), None)

    def subscribe(self, *topics: str, pattern: str | None = None, listener: Listener | None = None) -> None:
        """Read these topics, or those whose whole name matches `pattern`, with the group's other members.

        A `listener`, with plain or with async methods, takes the place of the one that there was.
        Raises: ConfigurationError.
        """
        if listener is not None:
            check_listener(listener)
        compiled = None if pattern is None else re.compile(pattern)
        self._listener = listener or self._listener
        self._session.subscribe(topics, compiled)

    async def unsubscribe(self) -> None:
        """Commit if that is automatic, leave the group, and read nothing; the listener hears of it.

        One that is cancelled goes on to its end, for some seconds at most.
        """
        self._session.check_loop()
        await self._session.complete(self._unsubscribe)

    async def _unsubscribe(self) -> None:
        await self._say_farewell()
        await self._session.unsubscribe()

    async def _say_farewell(self) -> None:
        farewell = self._session.farewell()
        if farewell is not None:
            await self._tell(farewell, self._session.positions.partitions())

    def assign(self, *partitions: TopicPartition) -> None:
        """Read these partitions without a group's say."""
        self._session.assign(partitions)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this consumer counts, under the names of Kafka's Java client."""
        return self._session.metrics.read()

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer reads at the moment."""
        return self._session.positions.partitions()

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    async def poll(
        self, *unnamed: Never, timeout_ms: float | None = None, max_records: int | None = None
    ) -> ConsumerRecords[K_co, V_co]:
        """Return records as soon as there are any; none when the time is over.

        Rebalances are carried out within, and automatic commits begun.
        Raises: KohortError; WakeupError after `wakeup`.
        """
        if unnamed:
            by_name_alone(unnamed, "poll(timeout_ms=1_000)")
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        most = max_records or self._session.config.max_poll_records
        self._session.check_loop()
        await checkpoint()  # The background has its turn, even if there are always records.
        while not (records := self._take_ready(most)):
            due = await self._advance(deadline)
            is_over = self._session.is_over(deadline)
            if is_over if due is None else not await self._attend_to(due, deadline):
                break
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
        """Return records as a table, as soon as there are any; one without rows when the time is over.

        It has about `max_bytes` of keys and values. Otherwise this is `poll`. Raises: MissingExtraError
        without pyarrow; KohortError; WakeupError.
        """
        table_of = require_arrow()
        self._session.check_loop()
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        await checkpoint()
        while True:
            found = self._session.take_columns(max_bytes)
            if self._session.fetcher.is_hungry:
                self._session.fetcher.wake()
            if found:
                return table_of(found)
            due = await self._advance(deadline)
            is_over = self._session.is_over(deadline)
            if is_over if due is None else not await self._attend_to(due, deadline):
                return table_of([])

    def wakeup(self) -> None:
        """End the poll that another task is in, or its next one, with a WakeupError; from any thread."""
        self._session.wakeup()
        if self._from_any_thread is not None:
            self._from_any_thread(self._session.notice)

    def __repr__(self) -> str:
        state = "closed " if self._is_closed else ""
        return f"<{state}aio.Consumer {self._session.describe()}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K_co, V_co]:
        session = self._session
        if self._owes_turn:
            self._owes_turn = False
            await checkpoint()  # Before anything is taken: the next fetch goes out while the user reads on.
        while True:
            if not self._is_closed:
                record = session.next_ready()
                if session.fetcher.buffer.is_hungry:
                    session.fetcher.wake()
                    self._owes_turn = True
                if record is not None:
                    return record
            due = await self._advance(None)
            if due is not None:
                await self._attend_to(due, None)

    async def _advance(self, deadline: Deadline | None) -> Due | None:
        if self._is_closed:
            raise ClosedError("this client is closed")
        self._session.check_loop()
        return await self._session.advance(deadline)

    async def _attend_to(self, due: Due, deadline: Deadline | None) -> bool:
        """Do what is due; return whether there was time enough."""
        if isinstance(due, CommitOutcome):
            called = due.callback(due.offsets, due.error)
            if called is not None:
                await called
            return True
        partitions = await self._session.begin(due, deadline)
        if partitions is None:
            return False
        await self._tell(due, partitions)
        self._session.end(due)
        return True

    async def _tell(self, handover: Revoke | Lose | Assign, partitions: tuple[TopicPartition, ...]) -> None:
        if isinstance(handover, Assign):
            told = self._listener.on_assigned(partitions)
        elif isinstance(handover, Revoke):
            told = self._listener.on_revoked(partitions)
        else:
            told = self._listener.on_lost(partitions)
        if told is not None:
            await told

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group rebalance, for a reason that the broker keeps."""
        self._session.enforce_rebalance(reason)

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's place in its group, as a transaction needs it."""
        return self._session.group_metadata()

    async def commit(self, offsets: Commitable = None) -> None:
        """Commit these offsets, those behind these records, or all that was consumed; return when it is kept.

        One that meets a rebalance is repeated when that is over, if its partitions are kept.
        Raises: CommitFailedError, with the partitions, when the group has moved on;
        RebalanceInProgressError when the rebalance takes longer than default_api_timeout_ms.
        """
        self._session.check_loop()
        await self._session.commit(offsets)

    def commit_async(self, offsets: Commitable = None, callback: CommitCallback | None = None) -> None:
        """Commit these offsets, those behind these records, or all that was consumed, in the background.

        It is not retried. A later poll or close calls, and awaits, `callback(offsets, error)`; without one,
        a failure is logged.
        Raises: CommitFailedError if a partition is not this consumer's.
        """
        self._session.check_loop()
        self._session.commit_soon(offsets, callback)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for these partitions."""
        return await self._session.committed(partitions)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        self._session.check_loop()
        return await self._seeks.position(partition)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how far the partition's end is ahead, by the last answer to a fetch, without asking.

        None until there was one. For read_committed the end is that of what is committed.
        """
        return self._seeks.current_lag(partition)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read a partition on at `offset`; one with a leader epoch is checked with the leader (KIP-320)."""
        self._seeks.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their first record."""
        self._seeks.seek_to_ends(partitions, beginning=True)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their end."""
        self._seeks.seek_to_ends(partitions, beginning=False)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hold these partitions' records back, or all; the membership goes on."""
        self._seeks.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Let these partitions' records through again, or all."""
        self._seeks.pause(partitions, paused=False)

    def paused(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose records are held back."""
        return self._seeks.paused()

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions."""
        return await self._seeks.partitions_for(topic)

    async def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics that there are, sorted."""
        return await self._seeks.list_topics(include_internal=include_internal)

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = await self._seeks.offsets_at(
            dict.fromkeys(one_by_one(partitions, tuple, "beginning_offsets"), EARLIEST)
        )
        return {each: value.offset for each, value in found.items()}

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition."""
        found = await self._seeks.offsets_at(
            dict.fromkeys(one_by_one(partitions, tuple, "end_offsets"), LATEST)
        )
        return {each: value.offset for each, value in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, None where there is none."""
        found = await self._seeks.offsets_at(timestamps_ms)
        return {each: value if value.offset >= 0 else None for each, value in found.items()}
