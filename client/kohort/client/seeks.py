"""Where a consumer reads on, at its user's word: seeks, pauses, positions, and what there is to seek to."""

from collections.abc import Iterable, Mapping

from kohort.client.arguments import one_by_one
from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import BrokerError, RequestTimeoutError, check
from kohort.client.fetcher import Fetcher
from kohort.client.offsets import EARLIEST, LATEST, list_offsets
from kohort.client.positions import Positions
from kohort.client.retry import Deadline
from kohort.client.signal import Signal
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.protocol.errors import ErrorCode


class Seeks:
    """One consumer's; on its event loop, while whoever reads waits for it."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, positions: Positions, fetcher: Fetcher, news: Signal
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._positions = positions
        self._fetcher = fetcher
        self._news = news

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record, once it is known."""
        state = self._positions.get(partition)
        timeout_ms = self._config.default_api_timeout_ms
        deadline = Deadline(timeout_ms)
        while state.position is None:
            self._fetcher.raise_error()
            self._fetcher.buffer.raise_failure(state)
            if deadline.passed:
                raise RequestTimeoutError(f"the position of {partition} was not found in {timeout_ms} ms")
            await self._news.wait(deadline.remaining_ms)
        return state.position

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the partition's end was ahead in the last answer, None before the first."""
        state = self._positions.get(partition)
        end = state.last_stable_offset if self._config.reads_committed else state.high_watermark
        position = state.position
        return None if end is None or position is None else max(0, end - position)

    def seek(self, partition: TopicPartition, where: int | OffsetAndMetadata) -> None:
        """Read on at this offset."""
        if isinstance(where, int):
            where = OffsetAndMetadata(where)
        if where.offset < 0:
            raise ValueError(f"an offset can't be {where.offset}")
        self._positions.get(partition).seek(where.offset, where.leader_epoch)
        self._fetcher.wake()

    def seek_to_ends(self, partitions: Iterable[TopicPartition], *, beginning: bool) -> None:
        """Read on at the beginning or the end; with no partitions, of all that are assigned."""
        wanted = one_by_one(partitions, tuple, "seek_to_beginning" if beginning else "seek_to_end")
        for each in wanted or self._positions.partitions():
            self._positions.get(each).seek_to(EARLIEST if beginning else LATEST)
        self._fetcher.wake()

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Hold back, or let through again, the records of these partitions; with none, of all."""
        wanted = one_by_one(partitions, tuple, "pause" if paused else "resume")
        for each in wanted or self._positions.partitions():
            state = self._positions.get(each)
            state.paused = paused
            if paused:
                self._fetcher.buffer.detach(state)
        if not paused:
            self._fetcher.buffer.resume()
        self._fetcher.wake()
        self._news.set()

    def paused(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose records are held back."""
        return tuple(each.partition for each in self._positions if each.paused)

    async def list_topics(self, *, include_internal: bool) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(None))
        known = self._cluster.metadata.topics.values()
        return tuple(sorted(each.name for each in known if include_internal or not each.is_internal))

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offsets for timestamps, or for LATEST or EARLIEST."""
        return await self._cluster.retrying(
            lambda: list_offsets(self._cluster, timestamps, committed_only=self._config.reads_committed)
        )

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions. Raises: BrokerError if it does not exist."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata([topic]))
        found = self._cluster.metadata.topics.get(topic)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        check(found.error, f"topic {topic!r}")
        return tuple(TopicPartition(topic, each) for each in found.partitions)
