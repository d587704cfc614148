"""The common part of the two producers: metadata, accumulator and sender, on one event loop."""

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from kohort.client.accumulator import Accumulator
from kohort.client.arguments import checked_topic
from kohort.client.batch import Appended
from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig, describe_servers
from kohort.client.errors import (
    BrokerError,
    BufferFullError,
    ClosedError,
    ConfigurationError,
    KohortError,
    RequestTimeoutError,
)
from kohort.client.loop_thread import FORKED
from kohort.client.producer_metrics import GROUP, ProducerMetrics
from kohort.client.record_input import Record, RecordInput
from kohort.client.retry import Backoff, Deadline
from kohort.client.sender import Sender
from kohort.client.session import Session
from kohort.client.signal import Signal
from kohort.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.client.transactions import Transactions

logger = logging.getLogger(__name__)

ROOM_CHECK_MS = 50
ABORT_SECONDS = 2.0
LASTING_MS = 5_000  # Waiting this long for memory is logged.


class ProducerSession(Session):
    """One producer's work, open from `__aenter__` to `__aexit__`."""

    def __init__(
        self,
        config: ProducerConfig,
        record_input: RecordInput,
        kind: type[Appended],
        hub: Cluster | None = None,
    ) -> None:
        super().__init__(config, hub)
        self.config = config
        self.finish_timeout_ms = config.delivery_timeout_ms
        self._input = record_input
        self._call_soon: Callable[[Callable[[], None]], None] = lambda wake: wake()
        self._wanted: set[str] = set()
        self._metadata_needed = Signal()
        self.accumulator = Accumulator(config, lambda: self._call_soon(self._wake_sender), kind)
        RequestMetrics(self.metrics, GROUP, self.cluster)
        sensors = ProducerMetrics(self.metrics, self.accumulator, config)
        self._sender = Sender(
            self.cluster,
            config,
            self.accumulator,
            sensors,
            self._need_metadata,
            partitioner=record_input.partitioner,
        )
        self._warnings = self.cluster.warnings
        self.transactions = self._sender.transactions
        self._is_open = False

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.cluster.tasks.start_soon(self._sender.run)
        self.cluster.tasks.start_soon(self._keep_metadata)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.transactions is not None:
            await self._abort_in_time(self.transactions)
        self._is_open = False
        self.accumulator.close()
        left = sum(each.batch.record_count for each in self._sender.unfinished())
        if left:
            self._warnings.say("closed", f"the producer is closed before {left} record(s) were written")
        self._sender.abandon(RequestTimeoutError("the producer was closed before the record was written"))
        await super().__aexit__(kind, error, trace)

    async def _abort_in_time(self, transactions: "Transactions") -> None:
        """Abort the open transaction, or leave that to the coordinator's timeout."""
        with anyio.move_on_after(ABORT_SECONDS, shield=True):
            try:
                if transactions.is_open:
                    await self.end_transaction(is_commit=False)
                await transactions.settle()
            except KohortError as error:
                logger.debug("a transaction that was open at the end could not be aborted: %s", error)

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises: KohortError."""
        await self._transactional().begin()

    async def init_transactions(self) -> None:
        """Fence every other producer of this transactional id. Raises: KohortError."""
        await self._transactional().init()

    async def end_transaction(self, *, is_commit: bool) -> None:
        """Commit or abort. Raises: KohortError."""
        await self._transactional().end(self.flush, is_commit=is_commit)

    async def abort_after_failure(self, failure: BaseException) -> None:
        """Abort the open transaction of a failed block.

        If that fails it is logged: there is an error already.
        A cancelled or interrupted caller waits for ABORT_SECONDS. The abort continues, and the next
        transaction starts after it.
        """
        if isinstance(failure, Exception):
            await self._abort_if_open()
        else:
            with anyio.move_on_after(ABORT_SECONDS, shield=True):
                await self._abort_if_open()

    async def _abort_if_open(self) -> None:
        try:
            if self.transactions is not None and self.transactions.is_open:
                await self.end_transaction(is_commit=False)
        except KohortError as error:
            logger.warning("a transaction could not be aborted, its time-out will: %s", error)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction. Raises: KohortError."""
        whole = {
            partition: OffsetAndMetadata(each) if isinstance(each, int) else each
            for partition, each in offsets.items()
        }
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        if metadata.caveat:
            self._warnings.say(("offsets", metadata.group_id), metadata.caveat)
        await self._transactional().send_offsets(whole, metadata)

    def _transactional(self) -> "Transactions":
        if self.transactions is None:
            raise ConfigurationError("a producer has transactions if it is given a transactional_id")
        return self.transactions

    def describe(self) -> str:
        """Return where it writes, and how much waits."""
        return f"to {describe_servers(self.config)}, {self.accumulator.buffered_bytes} bytes in flight"

    def after_fork(self) -> None:
        """Wake waiters in a forked process: only the parent process may still send."""
        self.accumulator.after_fork()
        for queued_batch in self._sender.unfinished():
            queued_batch.batch.give_up_in_fork(ClosedError(FORKED))

    def append_in_threads(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        """Let other threads than the loop's append: `call_soon` wakes the sender in the loop."""
        self._call_soon = call_soon

    def _wake_sender(self) -> None:
        self._sender.wake()

    def try_append(self, record: Record) -> Appended | None:
        """Return the record's place, or None if that takes waiting. From any thread. Raises: KohortError."""
        if self.transactions is not None:
            self.transactions.check_may_send()
        if self._input.partitioner is not None:
            count = self.accumulator.partition_count(record.topic)
            if not count:
                return None
            record = self._input.partition(record, count)
        return self.accumulator.append(*record)

    async def append(self, record: Record) -> Appended:
        """Return the record's place, once the topic is known and there is room, within max_block_ms.

        Raises: KohortError.
        """
        deadline = Deadline(self.config.max_block_ms)
        checked_topic(record.topic)
        while True:
            appended = self.try_append(record)
            if appended is not None:
                return appended
            if not self._is_open:
                raise ClosedError("this producer is closed")
            if not self._is_known(record):
                await self._learn(record, deadline)
                self._check_partition(record)
            else:
                await self._wait_for_room(deadline)

    async def flush(self) -> None:
        """Send everything appended so far, and return when the results are known."""
        await self._sender.flush()

    async def finish(self) -> None:
        """Send everything that was appended."""
        await self.flush()

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions. Raises: BrokerError if it does not exist."""
        return tuple((await self.cluster.topic(checked_topic(topic))).partitions)

    def _is_known(self, record: Record) -> bool:
        count = self.accumulator.partition_count(record.topic)
        return count > 0 and (record.partition is None or 0 <= record.partition < count)

    async def _learn(self, record: Record, deadline: Deadline) -> None:
        topic = record.topic
        found = await self.cluster.topic(topic, create=True, deadline=deadline)
        if record.partition is not None and record.partition not in found.partitions:  # Added since, maybe.
            await self.cluster.retrying(lambda: self.cluster.refresh_metadata([topic]), deadline=deadline)
            found = await self.cluster.topic(topic, create=True, deadline=deadline)
        self.accumulator.learn(topic, len(found.partitions), found.topic_id)

    def _check_partition(self, record: Record) -> None:
        count = self.accumulator.partition_count(record.topic)
        if record.partition is not None and not 0 <= record.partition < count:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {record.topic!r} has partitions 0 to {count - 1}, not {record.partition}",
            )

    async def _wait_for_room(self, deadline: Deadline) -> None:
        if deadline.passed:
            raise BufferFullError(
                f"no room for another record within max_block_ms ({self.config.max_block_ms}): buffer_memory"
                f" ({self.config.buffer_memory}) is full of records that the broker has not taken yet"
            )
        self._warnings.say(
            "buffer_memory",
            f"send waits: buffer_memory ({self.config.buffer_memory}) is full of records still to be written",
            after_ms=LASTING_MS,
        )
        self.accumulator.starved += 1
        try:
            self._sender.wake()
            await self._sender.wait_for_room(min(ROOM_CHECK_MS, deadline.remaining_ms))
        finally:
            self.accumulator.starved -= 1

    # Metadata

    def _need_metadata(self, topic: str) -> None:
        self._wanted.add(topic)
        self._metadata_needed.set()

    async def _keep_metadata(self) -> None:
        """Ask again where leaders have moved, and now and then for partitions that were added."""
        config = self.config
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        while True:
            await self._metadata_needed.wait(config.metadata_max_age_ms)
            wanted, self._wanted = self._wanted, set()
            topics = wanted or self.accumulator.topics()
            try:  # Writing creates a missing topic, as in Kafka's producer; reading does not.
                await self.cluster.refresh_metadata(topics, create=bool(wanted))
            except KohortError as error:
                logger.debug("metadata: %s", error)  # The cluster reports unreachable brokers.
            else:
                self._take_over(topics)
                self._sender.wake()
            await anyio.sleep(backoff.next_ms() / 1000)
            if not self._wanted:
                backoff.reset()

    def _take_over(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            found = self.cluster.metadata.topics.get(topic)
            if found is not None and not found.error and found.partitions:
                self.accumulator.learn(topic, len(found.partitions), found.topic_id)
            elif found is None or not BrokerError(found.error).retriable:
                self.accumulator.forget(topic)
