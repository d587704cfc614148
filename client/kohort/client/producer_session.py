"""What the two producers share: metadata, accumulator and sender, on one event loop."""

import logging
import time
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio

from kohort.client.accumulator import Accumulator, Appended, Headers, Outgoing
from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import BrokerError, KohortError, RequestTimeoutError
from kohort.client.retry import Deadline
from kohort.client.sender import Sender
from kohort.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class ProducerSession:
    """One producer, open from `__aenter__` to `__aexit__`."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._cluster = Cluster(config)
        self._accumulator = Accumulator(config)
        self.sender = Sender(self._cluster, config, self._accumulator)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._cluster)
        self._cluster.tasks.start_soon(self.sender.run)
        self._cluster.tasks.start_soon(self._watch_metadata)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sender.abandon()
        await self._stack.aclose()

    def try_append(self, record: Outgoing) -> Appended | None:
        """Return the record's place, or None if that takes waiting. From any thread. Raises: BrokerError."""
        known = self._cluster.metadata.topics.get(record.topic)
        if known is None or known.error or not known.partitions:
            return None
        count = len(known.partitions)
        if record.partition is not None and not 0 <= record.partition < count:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {record.topic!r} has partitions 0 to {count - 1}, not {record.partition}",
            )
        return self._accumulator.append(record, count)

    async def append(self, record: Outgoing) -> Appended:
        """Return the record's place, once the topic is known and there is room, within max_block_ms.

        Raises: KohortError.
        """
        deadline = Deadline(self.config.max_block_ms)
        while True:
            appended = self.try_append(record)
            if appended is not None:
                if appended.wakes:
                    self.sender.wake()
                return appended
            await self._cluster.topic(record.topic, create=True, deadline=deadline)
            with anyio.move_on_after(deadline.remaining_ms / 1000) as waiting:
                if self.sender.unfinished():
                    await self.sender.wait_for_progress()
            if waiting.cancelled_caught:
                raise RequestTimeoutError(
                    f"no room for another record within max_block_ms ({self.config.max_block_ms});"
                    " buffer_memory is full of records that the broker does not take"
                )

    async def flush(self) -> None:
        """Send everything that was appended so far, and return when its fate is known."""
        self._accumulator.flushes += 1
        self.sender.wake()
        try:
            for batch in self.sender.unfinished():
                await batch.wait()
        finally:
            self._accumulator.flushes -= 1

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions. Raises: BrokerError if it does not exist."""
        return tuple((await self._cluster.topic(topic)).partitions)

    async def _watch_metadata(self) -> None:
        """Notice partitions that are added to the topics in use."""
        while True:
            await anyio.sleep(self.config.metadata_max_age_ms / 1000)
            try:
                await self._cluster.refresh_metadata(tuple(self._cluster.metadata.topics))
            except KohortError as error:
                logger.debug("metadata: %s", error)


def outgoing(
    topic: str,
    value: bytes | None,
    *,
    key: bytes | None,
    partition: int | None,
    timestamp_ms: int | None,
    headers: Headers,
) -> Outgoing:
    """Return the record as it will be sent. Raises: TypeError for a key or value that is not bytes."""
    for what, data in (("value", value), ("key", key)):
        if data is not None and not isinstance(data, bytes):
            hint = f"; encode it: {what}=text.encode()" if isinstance(data, str) else ""
            raise TypeError(f"a record's {what} is bytes or None, not {type(data).__name__}{hint}")
    if timestamp_ms is None:
        timestamp_ms = time.time_ns() // 1_000_000
    return Outgoing(topic, value, key, partition, timestamp_ms, headers)
