"""The topic of schemas: read into the state, and written by one registry at a time.

The writer takes the transactional id, which fences the former writer: its decisions on an older state are not
written any more. Each decision looks at all that is in the topic, and each answer comes when its own records
have been read.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import anyio
import anyio.to_thread

from kohort.client.admin_values import NewTopic, ResourceType
from kohort.client.aio import Admin, Consumer, Producer
from kohort.client.config import ClientOptions
from kohort.client.errors import BrokerError, ConfigurationError, ItemsError, KohortError
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.registry import errors
from kohort.registry.core import Decision
from kohort.registry.records import TOPIC, Record, decode, encode
from kohort.registry.state import State

logger = logging.getLogger(__name__)

T = TypeVar("T")
ANSWER_SECONDS = 30.0
"""The longest time of a request, with all that it waits for."""
POLL_MS = 50
"""What ends a transaction is no record: a poll does not return for it, and the position is looked at anew."""
RETRY_SECONDS = 0.1
YIELD_SECONDS_MAX = 3.0
REPLICATION_FACTOR_MAX = 3
TRANSACTION_TIMEOUT_MS = 30_000
RECORD_BYTES_MAX = 1_000_000
"""The size of a schema's record; brokers take about as much by default."""
HOPELESS = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors that another attempt does not change."""
CLEANUP_POLICY = "compact"


class SchemaLog:
    """Carries requests out on the state, one after the other. Between `open` and `close`."""

    def __init__(self, state: State, options: ClientOptions, topic: str = TOPIC) -> None:
        """`options` are those of each client."""
        self._state = state
        self._options = options
        self._partition = TopicPartition(topic, 0)
        self._transactional_id = f"kohort-schema-registry{topic}"
        self._admin = Admin(**options)
        self._consumer: Consumer[bytes, bytes] | None = (
            None  # None until the topic is read from its beginning.
        )
        self._topic_id: UUID | None = None  # Of the topic that the state was read from.
        self._producer: Producer[bytes, bytes] | None = None
        self._lock = anyio.Lock()
        self._next = 0  # The offset behind the last record that was applied.
        self._written: int | None = None  # The last offset of a transaction whose end may be unknown.
        self._is_written = False  # Whether that record was read.
        self._took_over_at: float | None = None  # Until the first write behind it is done.
        self._turn_seconds = RETRY_SECONDS  # So long the last take-over took, with the write behind it.
        self.cluster_id = ""

    async def open(self) -> None:
        """Make the topic if it is not there, and read it. Raises: KohortError."""
        await self._admin.start()
        cluster = await self._admin.describe_cluster()
        self.cluster_id = cluster.cluster_id or ""
        replication_factor = min(REPLICATION_FACTOR_MAX, len(cluster.nodes))
        await _ensure_topic(self._admin, self._partition.topic, replication_factor)
        await self._catch_up()
        logger.info("the topic %s is read: %d subjects", self._partition.topic, len(self._state.subjects))

    async def close(self) -> None:
        """Close the clients."""
        await self._resign()
        if self._consumer is not None:
            await self._consumer.stop()
        await self._admin.stop()

    async def carry_out(self, request: Callable[[], Decision]) -> Any:
        """Return the answer to a request, once its records are in the topic. Raises: RegistryError."""
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                async with self._lock:
                    return await self._carry_out(request)
        except TimeoutError:
            raise errors.store_timed_out(
                f"the topic could not be read or written in {ANSWER_SECONDS:.0f} s"
            ) from None
        except KohortError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise errors.too_large(f"the topic takes no schema of that size: {error}") from None
            logger.warning("the topic of schemas cannot be read or written: %s", error)
            raise errors.store_failed(f"the topic of schemas cannot be read or written: {error}") from None

    async def _carry_out(self, request: Callable[[], Decision]) -> Any:
        while True:
            await self._catch_up()
            decision = await anyio.to_thread.run_sync(request)
            if not decision.records:
                return decision.answer
            if self._producer is None:
                await self._take_over()
                continue  # Another registry may have written until it was fenced.
            if await self._write(decision.records):
                return decision.answer

    # -- writing ------------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Become the writer: the former one is fenced, and its transaction has ended."""
        producer: Producer[bytes, bytes] = Producer(
            **self._options,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_request_size=2 * RECORD_BYTES_MAX,
            linger_ms=0,
        )
        self._took_over_at = anyio.current_time()
        await producer.start()
        self._producer = producer
        is_done = False
        try:
            await producer.init_transactions()
            is_done = True
        finally:
            if not is_done:
                await self._resign()

    async def _resign(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stop(producer)

    async def _write(self, records: tuple[Record, ...]) -> bool:
        """Return whether the records are in the topic: all of them, or none. Raises: KohortError."""
        self._written, self._is_written = None, False
        last: int | None = None
        try:
            last = await self._write_transaction([encode(each) for each in records])
        except KohortError as error:
            if self._written is None and error.code in HOPELESS:
                raise
            logger.info("what became of a write is not known, or another registry writes now: %s", error)
        finally:
            if last is None:
                await self._resign()
        if last is not None:
            if self._took_over_at is not None:
                self._turn_seconds, self._took_over_at = anyio.current_time() - self._took_over_at, None
            await self._read_up_to(last + 1)
            await self._forget_if_another_topic()
            return self._is_written
        # Another registry needs about as long for its turn: to take over sooner would keep it from writing.
        await anyio.sleep(random.random() * min(3 * self._turn_seconds, YIELD_SECONDS_MAX))
        await self._retrying(self._take_over)  # By this the transaction has ended, one way or the other.
        await self._catch_up()
        return self._is_written

    async def _write_transaction(self, pairs: list[tuple[bytes, bytes | None]]) -> int:
        """Return the offset of the last record."""
        assert self._producer is not None
        if any(len(value or b"") + len(key) > RECORD_BYTES_MAX for key, value in pairs):
            raise errors.too_large(f"a schema may have {RECORD_BYTES_MAX} bytes, with all that belongs to it")
        await self._producer.begin_transaction()
        deliveries = [
            await self._producer.send(self._partition.topic, value, key=key, partition=0)
            for key, value in pairs
        ]
        await self._producer.flush()
        last = max([(await each).offset for each in deliveries])
        self._written = last
        await self._producer.commit_transaction()
        return last

    async def _retrying(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call returns, tried as long as a request may take. Raises: KohortError."""
        deadline = anyio.current_time() + ANSWER_SECONDS
        while True:
            try:
                return await call()
            except KohortError as error:
                if not error.retriable or anyio.current_time() > deadline:
                    raise
            await anyio.sleep(RETRY_SECONDS)

    # -- reading ------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Read everything that is committed by now, and nothing of a topic that was deleted."""
        is_whole = False
        while not is_whole:
            consumer = self._consumer or await self._begin()
            ends = await consumer.end_offsets(self._partition)
            if ends[self._partition] < self._next:
                await self._forget("it ends before what was read of it")
                continue
            await self._read_up_to(ends[self._partition])
            is_whole = not await self._forget_if_another_topic()

    async def _begin(self) -> Consumer[bytes, bytes]:
        """Return a consumer that reads the topic from its beginning."""
        await self._retrying(partial(_check_policy, self._admin, self._partition.topic))
        topic_id = await self._topic_id_now()
        consumer: Consumer[bytes, bytes] = Consumer(
            **self._options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
        )
        try:
            await consumer.start()
            consumer.assign(self._partition)
            consumer.seek_to_beginning(self._partition)
            self._consumer, self._topic_id = consumer, topic_id
        finally:
            if self._consumer is None:
                await _stop(consumer)
        return consumer

    async def _topic_id_now(self) -> UUID:
        topic = self._partition.topic
        # A broker may not know it yet.
        found = await self._retrying(partial(self._admin.describe_topics, topic))
        return found[topic].topic_id

    async def _forget_if_another_topic(self) -> bool:
        """Return whether the topic was deleted and made again; then what was read of it counts no more."""
        if await self._topic_id_now() == self._topic_id:
            return False
        await self._forget("it was deleted and made again")
        return True

    async def _forget(self, why: str) -> None:
        """Clear the state: the topic has to be read anew."""
        logger.warning("the topic %s is read anew: %s", self._partition.topic, why)
        consumer, self._consumer = self._consumer, None
        self._state.clear()
        self._next, self._written, self._is_written = 0, None, False
        await self._resign()
        if consumer is not None:
            await _stop(consumer)

    async def _read_up_to(self, end: int) -> None:
        consumer = self._consumer
        assert consumer is not None
        while self._next < end and await consumer.position(self._partition) < end:
            for each in await consumer.poll(timeout_ms=POLL_MS):
                self._apply(each.key, each.value, each.offset)

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        self._next = offset + 1
        self._is_written = self._is_written or offset == self._written
        try:
            self._state.apply(decode(key or b"", value))
        except ValueError as error:
            logger.warning("record %d of %s is none of a registry: %s", offset, self._partition.topic, error)


async def _stop(client: Consumer[bytes, bytes] | Producer[bytes, bytes]) -> None:
    """Stop a client, also where the request that needed it was cancelled."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(RETRY_SECONDS * 10):
        await client.stop()


async def _ensure_topic(admin: Admin, topic: str, replication_factor: int) -> None:
    """Make the topic where it is not there. Raises: KohortError, also for one that is not fit."""
    try:
        wanted = NewTopic(
            topic,
            partitions=1,
            replication_factor=replication_factor,
            configs={"cleanup.policy": CLEANUP_POLICY},
        )
        await admin.create_topics(wanted)
    except (ItemsError, BrokerError) as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        found = await admin.describe_topics(topic)
        if len(found[topic].partitions) != 1:
            raise ConfigurationError(f"the topic {topic} must have one partition") from None


async def _check_policy(admin: Admin, topic: str) -> None:
    """Return if the topic keeps its records. Raises: KohortError."""
    try:
        found = (await admin.describe_configs(ResourceType.TOPIC, topic)).get("cleanup.policy")
    except BrokerError as error:
        if error.code not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        logger.warning("whether %s is compacted cannot be told, it must be: %s", topic, error)
        return
    if found is not None and found.value != CLEANUP_POLICY:
        raise ConfigurationError(
            f"the topic {topic} has cleanup.policy={found.value}, by which it loses schemas: "
            f"set it to {CLEANUP_POLICY}"
        )
