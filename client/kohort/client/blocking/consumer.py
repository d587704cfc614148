"""The blocking consumer."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, Self, Unpack

import anyio

from kohort.client.arguments import CONSUMERS_METHODS, OtherNames, by_name_alone, check_listener, one_by_one
from kohort.client.blocking.cluster_connection import ClusterConnection
from kohort.client.blocking.one_thread import OneThread, by_one_thread, in_use
from kohort.client.cluster_connection import options_with
from kohort.client.commits import Commitable, CommitOutcome, Offsets
from kohort.client.config import ConsumerOptions, consumer_config
from kohort.client.consumer_records import ConsumerRecords
from kohort.client.consumer_session import CLOSE_TIMEOUT_MS, NO_GROUP, TABLE_BYTES, ConsumerSession, Due
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.extras import require_arrow
from kohort.client.listener import RebalanceListener
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.membership import Assign, Lose, Revoke
from kohort.client.metrics import MetricName
from kohort.client.offsets import EARLIEST, LATEST
from kohort.client.retry import Deadline
from kohort.client.unclosed import end_soon
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

CommitCallback = Callable[[Offsets, KohortError | None], None]


class Consumer(OneThread, OtherNames, Generic[K_co, V_co]):
    """Reads records, as a member of a group or alone.

    with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            ...

    One thread at a time, and ConcurrentAccessError for any other; `wakeup` is for all, and so is what
    waits for nothing and changes nothing. Heartbeats go on in a thread of its own. `close`, or the end of
    the block, commits, if enable_auto_commit is on, and leaves the group; where the block raises, without
    what it had in hand.
    """

    _called_here = CONSUMERS_METHODS

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__()
        one_by_one(topics, str, "Consumer")
        if listener is not None:
            check_listener(listener)
        shared = None if cluster is None else cluster.connection
        config = consumer_config(
            {
                **options_with(shared, options),
                "key_deserializer": key_deserializer,
                "value_deserializer": value_deserializer,
            }
        )
        if topics and config.group_id is None:
            raise ConfigurationError(NO_GROUP)
        self._session = ConsumerSession(config, None if shared is None else shared.shared)
        self._seeks = self._session.seeks
        self._buffer = self._session.fetcher.buffer
        self._listener = listener or RebalanceListener()
        self._loop = LoopThread(
            self._session,
            f"kohort-consumer {config.group_id or ''}".rstrip(),
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
    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, leave the group, and end, within the time.

        `leave_group` says whether its partitions go to others at once; without it a static member stays, and
        any other leaves (KIP-1092).
        The listener hears of what is given up; callbacks of commits that are in flight are called.
        Raises: what the listener or a callback raises, when all is closed.
        """
        self._close(timeout_ms, leave_group=leave_group)

    def _close(
        self,
        timeout_ms: float = CLOSE_TIMEOUT_MS,
        *,
        has_failed: bool = False,
        leave_group: bool | None = None,
    ) -> None:
        if not self._loop.is_running or self._is_closing:
            return
        self._is_closing = True
        try:
            self._not_at_exit()
            self._say_farewell()
        finally:
            try:
                self._loop.call_to_end(
                    self._leave, timeout_ms, has_failed=has_failed, leave_group=leave_group
                )
            finally:
                self._loop.stop()
        self._call_back()

    async def _leave(self, timeout_ms: float, *, has_failed: bool, leave_group: bool | None) -> None:
        with anyio.move_on_after(timeout_ms / 1000):
            await self._session.leave(timeout_ms, has_failed=has_failed, leave_group=leave_group)

    @by_one_thread
    def subscribe(
        self, *topics: str, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, or those whose whole name matches `pattern`, with the group's other members.

        A `listener` takes the place of the one that there was. Raises: ConfigurationError.
        """
        if listener is not None:
            check_listener(listener)
        compiled = None if pattern is None else re.compile(pattern)
        self._listener = listener or self._listener
        self._loop.call_sync(self._session.subscribe, topics, compiled)

    @by_one_thread
    def unsubscribe(self) -> None:
        """Commit if that is automatic, leave the group, and read nothing; the listener hears of it."""
        self._say_farewell()
        self._loop.call(self._session.unsubscribe)

    def _say_farewell(self) -> None:
        farewell = self._session.farewell()
        if farewell is not None:
            self._tell(farewell, self._session.positions.partitions())

    @by_one_thread
    def assign(self, *partitions: TopicPartition) -> None:
        """Read these partitions without a group's say."""
        self._loop.call_sync(self._session.assign, partitions)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this consumer counts, under the names of Kafka's Java client."""
        return self._session.metrics.read()

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer reads at the moment."""
        return self._session.positions.partitions()

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    def poll(
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
        me = get_ident()
        inside = self._inside
        if inside and inside != me:
            raise in_use(inside)
        try:
            self._inside = me  # As by_one_thread does it, without its call.
            commits = self._session.commits
            assignments = commits.assignments  # First: the loop may notice that a topic is another.
            while not (records := self._take_ready(most)):
                due = self._loop.call(self._session.advance, deadline)
                is_over = self._session.is_over(deadline)
                if is_over if due is None else not self._attend_to(due, deadline):
                    break
                assignments = commits.assignments
        finally:
            self._inside = inside
        return self._session.commits.bind(records, assignments)

    def _take_ready(self, most: int) -> list[AnyRecord]:
        """Return what is there without a word to the loop, which hears only that there is room again."""
        if not self._loop.is_running:
            return []
        try:
            return self._session.take_ready(most)
        finally:
            if self._session.fetcher.is_hungry:
                self._loop.call_soon(self._session.fetcher.wake)

    @by_one_thread
    def poll_arrow(self, *, timeout_ms: float | None = None, max_bytes: int = TABLE_BYTES) -> "pa.Table":
        """Return records as a table, as soon as there are any; one without rows when the time is over.

        It has about `max_bytes` of keys and values. Otherwise this is `poll`. Raises: MissingExtraError
        without pyarrow; KohortError; WakeupError.
        """
        table_of = require_arrow()
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        while True:
            found = self._session.take_columns(max_bytes)
            if self._session.fetcher.is_hungry:
                self._loop.call_soon(self._session.fetcher.wake)
            if found:
                return table_of(found)
            due = self._loop.call(self._session.advance, deadline)
            is_over = self._session.is_over(deadline)
            if is_over if due is None else not self._attend_to(due, deadline):
                return table_of([])

    def wakeup(self) -> None:
        """End the poll that another thread is in, or its next one, with a WakeupError; from any thread."""
        self._session.wakeup()
        self._loop.call_soon(self._session.notice)

    def __repr__(self) -> str:
        state = "closed " if not self._loop.is_running else ""
        return f"<{state}Consumer {self._session.describe()}>"

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
                due = self._loop.call(session.advance, None)
                if due is not None:
                    self._attend_to(due, None)
        finally:
            self._inside = inside

    def _attend_to(self, due: Due, deadline: Deadline | None) -> bool:
        """Do what is due; return whether there was time enough."""
        if isinstance(due, CommitOutcome):
            due.callback(due.offsets, due.error)
            return True
        partitions = self._loop.call(self._session.begin, due, deadline)
        if partitions is None:
            return False
        self._tell(due, partitions)
        self._loop.call_sync(self._session.end, due)
        return True

    def _tell(self, handover: Revoke | Lose | Assign, partitions: tuple[TopicPartition, ...]) -> None:
        if isinstance(handover, Assign):
            self._listener.on_assigned(partitions)
        elif isinstance(handover, Revoke):
            self._listener.on_revoked(partitions)
        else:
            self._listener.on_lost(partitions)

    def _call_back(self) -> None:
        outcomes = self._session.commits.outcomes
        while outcomes:
            self._attend_to(outcomes.popleft(), None)

    @by_one_thread
    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group rebalance, for a reason that the broker keeps."""
        self._loop.call_sync(self._session.enforce_rebalance, reason)

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's place in its group, as a transaction needs it."""
        return self._session.group_metadata()

    @by_one_thread
    def commit(self, offsets: Commitable = None) -> None:
        """Commit these offsets, those behind these records, or all that was consumed; return when it is kept.

        One that meets a rebalance is repeated when that is over, if its partitions are kept.
        Raises: CommitFailedError, with the partitions, when the group has moved on;
        RebalanceInProgressError when the rebalance takes longer than default_api_timeout_ms.
        """
        self._loop.call(self._session.commit, offsets)
        self._call_back()

    @by_one_thread
    def commit_async(self, offsets: Commitable = None, callback: CommitCallback | None = None) -> None:
        """Commit these offsets, those behind these records, or all that was consumed, in the background.

        It is not retried. A later poll, commit or close calls `callback(offsets, error)`; without one, a
        failure is logged.
        Raises: CommitFailedError if a partition is not this consumer's.
        """
        self._loop.call_sync(self._session.commit_soon, offsets, callback)

    @by_one_thread
    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for these partitions."""
        return self._loop.call(self._session.committed, partitions)

    @by_one_thread
    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        return self._loop.call(self._seeks.position, partition)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how far the partition's end is ahead, by the last answer to a fetch, without asking.

        None until there was one. For read_committed the end is that of what is committed.
        """
        return self._seeks.current_lag(partition)

    @by_one_thread
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read a partition on at `offset`; one with a leader epoch is checked with the leader (KIP-320)."""
        self._loop.call_sync(self._seeks.seek, partition, offset)

    @by_one_thread
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their first record."""
        self._loop.call_sync(self._seeks.seek_to_ends, partitions, beginning=True)

    @by_one_thread
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their end."""
        self._loop.call_sync(self._seeks.seek_to_ends, partitions, beginning=False)

    @by_one_thread
    def pause(self, *partitions: TopicPartition) -> None:
        """Hold these partitions' records back, or all; the membership goes on."""
        self._loop.call_sync(self._seeks.pause, partitions, paused=True)

    @by_one_thread
    def resume(self, *partitions: TopicPartition) -> None:
        """Let these partitions' records through again, or all."""
        self._loop.call_sync(self._seeks.pause, partitions, paused=False)

    def paused(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose records are held back."""
        return self._seeks.paused()

    @by_one_thread
    def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions."""
        return self._loop.call(self._seeks.partitions_for, topic)

    @by_one_thread
    def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics that there are, sorted."""
        return self._loop.call(self._seeks.list_topics, include_internal=include_internal)

    @by_one_thread
    def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = self._loop.call(
            self._seeks.offsets_at,
            dict.fromkeys(one_by_one(partitions, tuple, "beginning_offsets"), EARLIEST),
        )
        return {each: value.offset for each, value in found.items()}

    @by_one_thread
    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition."""
        found = self._loop.call(
            self._seeks.offsets_at,
            dict.fromkeys(one_by_one(partitions, tuple, "end_offsets"), LATEST),
        )
        return {each: value.offset for each, value in found.items()}

    @by_one_thread
    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, None where there is none."""
        found = self._loop.call(self._seeks.offsets_at, timestamps_ms)
        return {each: value if value.offset >= 0 else None for each, value in found.items()}
