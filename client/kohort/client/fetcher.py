"""Reading ahead: fetches from every leader in the background, and hands records out one by one."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from uuid import UUID

import anyio

from kohort.client.cluster import FETCH, Cluster
from kohort.client.config import ConsumerConfig, duration_ms
from kohort.client.errors import BrokerError, KohortError, NoOffsetError
from kohort.client.offsets import EARLIEST, LATEST, by_topic, fetch_committed, list_offsets
from kohort.client.positions import RESET, PartitionState, Positions
from kohort.client.retry import Backoff
from kohort.client.signal import Signal
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kohort.protocol.records import iterate_batches, iterate_records, read_header
from kohort.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

CHUNKS_AHEAD = 2  # Per partition: the one that the user reads, and the next.
NAMES_IN_FETCH = 12  # The newest version that names topics; later ones have their ids alone.
SESSIONLESS_EPOCH = -1


class _Chunk:
    """What one fetch brought for one partition."""

    __slots__ = ("epoch", "next_offset", "records", "state")

    def __init__(self, state: PartitionState, records: Iterator[ConsumerRecord], next_offset: int) -> None:
        self.state = state
        self.epoch = state.epoch
        self.records = records
        self.next_offset = next_offset


class Fetcher:
    """Looks positions up and keeps records ready. `news` is called when there is something for a poll."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, positions: Positions, news: Callable[[], None]
    ) -> None:
        self.error: KohortError | None = None
        self.is_hungry = False  # Set by `next_record`, which may run in another thread: then call `wake`.
        self._cluster = cluster
        self._config = config
        self._positions = positions
        self._news = news
        self._wake = Signal()
        self._chunks: deque[_Chunk] = deque()
        self._busy_nodes: set[int] = set()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def wake(self) -> None:
        """Look again at what has to be fetched: partitions or positions have changed."""
        self.is_hungry = False
        self._wake.set()

    def raise_error(self) -> None:
        """Raise, once, what the background could not settle by itself."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    # Records

    def next_record(self) -> ConsumerRecord | None:
        """Return the next record and count it as consumed, or None when nothing is there yet.

        Raises: BrokerError for a batch that can't be read.
        """
        chunks = self._chunks
        for _ in range(len(chunks)):
            chunk = chunks[0]
            state = chunk.state
            if state.epoch != chunk.epoch:
                chunks.popleft()
                self.is_hungry = True
            elif state.paused:
                chunks.rotate(-1)
            else:
                try:
                    record = next(chunk.records, None)
                except WireError as error:
                    where = f"{state.partition} at offset {state.position}"
                    raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}") from error
                if record is not None:
                    state.position = record.offset + 1
                    return record
                chunks.popleft()
                state.position = chunk.next_offset
                state.buffered -= 1
                self.is_hungry = True
        return None

    @property
    def has_records(self) -> bool:
        """Whether a chunk is there that may hold a record for the user."""
        return any(not each.state.paused and each.state.epoch == each.epoch for each in tuple(self._chunks))

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to `most` records that are there already."""
        taken: list[ConsumerRecord] = []
        while len(taken) < most:
            record = self.next_record()
            if record is None:
                break
            taken.append(record)
        if self.is_hungry:
            self.wake()
        return taken

    # The background

    async def run(self) -> None:
        """Look up positions and fetch, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._know_topics()
                    await self._find_positions()
                    ready = self._fetchable()
                    self._backoff.reset()
                except KohortError as error:
                    await self._recover(error)
                    continue
                for node_id, states in ready.items():
                    self._busy_nodes.add(node_id)
                    tasks.start_soon(self._fetch, node_id, states)
                await self._wake.wait()

    async def _recover(self, error: KohortError) -> None:
        if not error.retriable:
            self.error = error
            self._news()
            await self._wake.wait()
            return
        logger.debug("fetching: %s", error)
        await anyio.sleep(self._backoff.next_ms() / 1000)
        topics = {each.partition.topic for each in self._positions}
        if topics:
            try:
                await self._cluster.refresh_metadata(topics)
            except KohortError as again:
                logger.debug("fetching: %s", again)

    async def _know_topics(self) -> None:
        known = self._cluster.metadata.topics
        unknown = {each.partition.topic for each in self._positions if each.partition.topic not in known}
        if unknown:
            await self._cluster.refresh_metadata(unknown)

    def _fetchable(self) -> dict[int, list[PartitionState]]:
        """Return the partitions that want more, by the node that leads them. Raises: BrokerError."""
        ready: dict[int, list[PartitionState]] = {}
        for each in self._positions:
            if each.fetch_offset is None or each.paused or each.buffered >= CHUNKS_AHEAD:
                continue
            leader = self._cluster.leader(each.partition).leader
            if leader not in self._busy_nodes:
                ready.setdefault(leader, []).append(each)
        return ready

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        asked = {each.partition: (each, each.epoch, each.fetch_offset or 0) for each in states}
        try:
            connection = await self._cluster.connection(node_id, FETCH)
            ids = {each.partition.topic: self._topic_id(each.partition.topic) for each in states}
            highest = NAMES_IN_FETCH if ZERO_UUID in ids.values() else None
            response = await connection.request(
                self._request(asked, ids),
                FetchResponse,
                timeout_ms=self._config.request_timeout_ms + self._config.fetch_max_wait_ms,
                highest=highest,
            )
            names = {topic_id: topic for topic, topic_id in ids.items()}
            failed: KohortError | None = BrokerError(response.error_code) if response.error_code else None
            for topic in response.responses:
                for data in topic.partitions:
                    partition = TopicPartition(
                        topic.topic or names.get(topic.topic_id, ""), data.partition_index
                    )
                    if partition in asked:
                        failed = self._received(*asked[partition], data) or failed
            if failed is not None:
                await self._recover(failed)
        except KohortError as error:
            await self._recover(error)
        finally:
            self._busy_nodes.discard(node_id)
            self._wake.set()
            self._news()

    def _topic_id(self, topic: str) -> UUID:
        found = self._cluster.metadata.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def _request(
        self, asked: dict[TopicPartition, tuple[PartitionState, int, int]], ids: dict[str, UUID]
    ) -> FetchRequest:
        def partition(each: TopicPartition) -> FetchPartition:
            return FetchPartition(
                partition=each.partition,
                current_leader_epoch=self._cluster.leader(each).leader_epoch,
                fetch_offset=asked[each][2],
                partition_max_bytes=self._config.max_partition_fetch_bytes,
                replica_directory_id=ZERO_UUID,
            )

        return FetchRequest(
            replica_id=-1,
            replica_state=ReplicaState(),
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=0,
            session_epoch=SESSIONLESS_EPOCH,
            topics=tuple(
                FetchTopic(topic=topic, topic_id=ids[topic], partitions=items)
                for topic, items in by_topic(asked, partition).items()
            ),
            forgotten_topics_data=(),
        )

    def _received(
        self, state: PartitionState, epoch: int, offset: int, data: PartitionData
    ) -> KohortError | None:
        """Keep what came for a partition; return what went wrong with it."""
        if state.epoch != epoch:
            return None
        code = data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.position == state.fetch_offset:
                state.seek_to(RESET)
            else:
                state.buffered = CHUNKS_AHEAD  # The user reads what is there first; then it is asked again.
            return None
        if code:
            return BrokerError(code, f"partition {state.partition}")
        records = data.records
        if records is None or len(records) == 0:
            return None
        assert isinstance(records, bytes | bytearray | memoryview)
        try:
            headers = [read_header(each) for each in iterate_batches(records)]
        except WireError as error:
            return BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{state.partition}: {error}")
        if headers:
            next_offset = max(offset, headers[-1].next_offset)
            self._chunks.append(_Chunk(state, self._decode(state.partition, records, offset), next_offset))
            state.fetch_offset = next_offset
            state.buffered += 1
        return None

    def _decode(
        self, partition: TopicPartition, data: bytes | bytearray | memoryview, offset: int
    ) -> Iterator[ConsumerRecord]:
        """Yield the records from `offset` on: a batch may begin before it."""
        topic, number = partition
        for batch in iterate_batches(data, check_crcs=self._config.check_crcs):
            if read_header(batch).is_control:
                continue
            for each in iterate_records(batch):
                if each.offset >= offset:
                    yield ConsumerRecord(
                        topic, number, each.offset, each.timestamp, each.key, each.value, each.headers
                    )

    # Positions

    async def _find_positions(self) -> None:
        """Give every partition a position: a committed one, or what auto_offset_reset says.

        Raises: KohortError; NoOffsetError where that is "none".
        """
        waiting = {each: each.epoch for each in self._positions.without_position()}
        if not waiting:
            return
        fresh = [each for each in waiting if each.reset_to is None]
        if fresh and self._config.group_id is not None:
            partitions = [each.partition for each in fresh]
            committed = await fetch_committed(self._cluster, self._config.group_id, partitions)
            for state in fresh:
                found = committed.get(state.partition)
                if found is not None and state.epoch == waiting[state]:
                    state.position = state.fetch_offset = found.offset
        lookups = {
            each: self._timestamp(each)
            for each in waiting
            if each.position is None and each.epoch == waiting[each]
        }
        if lookups:
            offsets = await list_offsets(self._cluster, {each.partition: at for each, at in lookups.items()})
            past_the_end = {each: LATEST for each in lookups if offsets[each.partition].offset < 0}
            if past_the_end:
                offsets |= await list_offsets(
                    self._cluster, {each.partition: LATEST for each in past_the_end}
                )
            for state in lookups:
                if state.epoch == waiting[state] and state.position is None:
                    state.position = state.fetch_offset = offsets[state.partition].offset
        self._news()

    def _timestamp(self, state: PartitionState) -> int:
        if isinstance(state.reset_to, int):
            return state.reset_to
        policy = self._config.auto_offset_reset
        if policy == "none":
            what = "its offset is out of range" if state.reset_to == RESET else "no offset is committed"
            raise NoOffsetError(f"partition {state.partition}: {what}, and auto_offset_reset is 'none'")
        if policy.startswith("by_duration:"):
            return time.time_ns() // 1_000_000 - duration_ms(policy)
        return EARLIEST if policy == "earliest" else LATEST
