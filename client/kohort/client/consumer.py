"""The asynchronous consumer, under trio and asyncio."""

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Self, Unpack

import anyio

from kohort.client.config import ConsumerOptions, consumer_config
from kohort.client.consumer_session import CLOSE_TIMEOUT_MS, NO_GROUP, ConsumerSession
from kohort.client.errors import ConfigurationError
from kohort.client.listener import AsyncRebalanceListener
from kohort.client.membership import Assign, Handover, Revoke
from kohort.client.offsets import EARLIEST, LATEST
from kohort.client.retry import Deadline
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


class Consumer:
    """Reads records, as a member of a group or alone.

    async with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
        async for record in consumer:
            ...

    Inside `async with` only, and by one task at a time. Heartbeats go on in the background. Leaving the
    block commits, if enable_auto_commit is on, and leaves the group.
    """

    def __init__(
        self,
        *topics: str,
        listener: AsyncRebalanceListener | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        config = consumer_config(options)
        if topics and config.group_id is None:
            raise ConfigurationError(NO_GROUP)
        self._session = ConsumerSession(config)
        self._listener = listener or AsyncRebalanceListener()
        self._first_topics = topics

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        if self._first_topics:
            self._session.subscribe(self._first_topics, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with anyio.move_on_after(CLOSE_TIMEOUT_MS / 1000, shield=True):
                partitions = self._session.revoke_at_close()
                if partitions:
                    await self._listener.on_revoked(partitions)
                await self._session.leave(CLOSE_TIMEOUT_MS)
        finally:
            await self._session.__aexit__(kind, error, trace)

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        """Read these topics, or those whose whole name matches `pattern`, with the group's other members."""
        self._session.subscribe(topics, None if pattern is None else re.compile(pattern))

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        await self._session.unsubscribe()

    def assign(self, *partitions: TopicPartition) -> None:
        """Read these partitions without a group's say."""
        self._session.assign(partitions)

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer reads at the moment."""
        return self._session.positions.partitions()

    def subscription(self) -> tuple[str, ...]:
        """Return the topics that it subscribes to."""
        return self._session.topics

    async def poll(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Return records as soon as there are any; none when the time is over.

        Rebalances are carried out within. Raises: KohortError.
        """
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        most = max_records or self._session.config.max_poll_records
        while True:
            found = await self._session.advance(deadline, most)
            if isinstance(found, list):
                return found
            await self._hand_over(found)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        session = self._session
        while True:
            if not session.needs_attention:
                record = session.fetcher.next_record()
                if record is not None:
                    session.poll_ends()  # Every step of the loop counts as a poll.
                    return record
                if session.fetcher.is_hungry:
                    session.fetcher.wake()
            found = await session.advance(None, 0)
            if not isinstance(found, list):
                await self._hand_over(found)

    async def _hand_over(self, handover: Handover) -> None:
        partitions = await self._session.begin(handover)
        if isinstance(handover, Assign):
            await self._listener.on_assigned(partitions)
        elif isinstance(handover, Revoke):
            await self._listener.on_revoked(partitions)
        else:
            await self._listener.on_lost(partitions)
        self._session.end(handover)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets, or everything that was consumed, and return when it is kept.

        Raises: CommitFailedError when the group has moved on.
        """
        await self._session.commit(offsets)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for these partitions."""
        return await self._session.committed(partitions)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        return await self._session.position(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read a partition on at `offset`."""
        self._session.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their first record."""
        self._session.seek_to_ends(partitions, beginning=True)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their end."""
        self._session.seek_to_ends(partitions, beginning=False)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hold these partitions' records back; the membership goes on."""
        self._session.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Let these partitions' records through again."""
        self._session.pause(partitions, paused=False)

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions."""
        return await self._session.partitions_for(topic)

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = await self._session.offsets_at(dict.fromkeys(partitions, EARLIEST))
        return {each: value.offset for each, value in found.items()}

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition."""
        found = await self._session.offsets_at(dict.fromkeys(partitions, LATEST))
        return {each: value.offset for each, value in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, None where there is none."""
        found = await self._session.offsets_at(timestamps_ms)
        return {each: value if value.offset >= 0 else None for each, value in found.items()}
