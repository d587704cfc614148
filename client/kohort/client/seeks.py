"""A consumer's calls about positions and offsets: seek, pause, first and last offsets."""

from collections.abc import Mapping

from kohort.client.arguments import one_by_one
from kohort.client.consumer_session import ConsumerSession
from kohort.client.errors import BrokerError, RequestTimeoutError, check
from kohort.client.offsets import EARLIEST, LATEST, list_offsets
from kohort.client.retry import Deadline
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.protocol.errors import ErrorCode


class PositionCalls:
    """The part of an asynchronous consumer that reads and changes positions."""

    _session: ConsumerSession

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition, once it is known."""
        session = self._session
        session.check_loop()
        state = session.positions.get(partition)
        deadline = Deadline(session.config.default_api_timeout_ms)
        while state.position is None:
            session.fetcher.raise_error()
            session.fetcher.buffer.raise_failure(state)
            if deadline.passed:
                raise RequestTimeoutError(
                    f"the position of {partition} was not found in {deadline.timeout_ms:.0f} ms"
                )
            await session.news.wait(deadline.remaining_ms)
        return state.position

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how far the partition's end is ahead, by the last answer to a fetch, without asking.

        None before the first answer. For read_committed the end is the last stable offset.
        """
        return self._session.current_lag(partition)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read a partition on at `offset`; one with a leader epoch is checked with the leader (KIP-320)."""
        where = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        if where.offset < 0:
            raise ValueError(f"an offset can't be {where.offset}")
        state = self._session.positions.get(partition)
        state.seek(where.offset, where.leader_epoch)
        state.sought()
        self._session.fetcher.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their first record."""
        self._seek_to(EARLIEST, one_by_one(partitions, tuple, "seek_to_beginning"))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read these partitions, or all, from their end."""
        self._seek_to(LATEST, one_by_one(partitions, tuple, "seek_to_end"))

    def _seek_to(self, timestamp: int, partitions: tuple[TopicPartition, ...]) -> None:
        positions = self._session.positions
        for each in partitions or positions.partitions():
            state = positions.get(each)
            state.seek_to(timestamp)
            state.sought()
        self._session.fetcher.wake()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hold back the records of these partitions, or of all. The consumer stays in its group."""
        self._pause(one_by_one(partitions, tuple, "pause"), paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return the records of these partitions, or of all, again."""
        self._pause(one_by_one(partitions, tuple, "resume"), paused=False)

    def _pause(self, partitions: tuple[TopicPartition, ...], *, paused: bool) -> None:
        session = self._session
        for each in partitions or session.positions.partitions():
            state = session.positions.get(each)
            state.paused = paused
            if paused:
                session.fetcher.buffer.detach(state)
        if not paused:
            session.fetcher.buffer.resume()
        session.fetcher.wake()
        session.news.set()

    def paused(self) -> tuple[TopicPartition, ...]:
        """Return the paused partitions."""
        return tuple(each.partition for each in self._session.positions if each.paused)

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions. Raises: BrokerError if it does not exist."""
        cluster = self._session.cluster
        await cluster.retrying(lambda: cluster.refresh_metadata([topic]))
        found = cluster.metadata.topics.get(topic)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        check(found.error, f"topic {topic!r}")
        return tuple(TopicPartition(topic, each) for each in found.partitions)

    async def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        return await self._session.cluster.topic_names(include_internal=include_internal)

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._ends(EARLIEST, one_by_one(partitions, tuple, "beginning_offsets"))

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition."""
        return await self._ends(LATEST, one_by_one(partitions, tuple, "end_offsets"))

    async def _ends(
        self, timestamp: int, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, int]:
        found = await self._offsets_at(dict.fromkeys(partitions, timestamp))
        return {each: value.offset for each, value in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, None if there is none."""
        found = await self._offsets_at(timestamps_ms)
        return {each: value if value.offset >= 0 else None for each, value in found.items()}

    async def _offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        session = self._session
        return await session.cluster.retrying(
            lambda: list_offsets(session.cluster, timestamps, committed_only=session.config.reads_committed)
        )
