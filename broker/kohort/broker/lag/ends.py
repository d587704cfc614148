"""Where partitions end, whoever leads them: here by a look, elsewhere by a question to the leader."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import structlog

from kohort.broker.lag.first_record import FirstRecord, Work, first_records
from kohort.broker.metadata import NO_LEADER, MetadataStore
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.broker.runtime.workers import Workers
from kohort.protocol.between_brokers import (
    ReadableOffsetsFound,
    ReadableOffsetsPosition,
    ReadableOffsetsRequest,
    ReadableOffsetsResponse,
    ReadableOffsetsTopic,
    ReadableOffsetsTopicFound,
)
from kohort.protocol.errors import ErrorCode
from kohort.storage import StorageError

ANSWER_SECONDS = 2.0
"""So long a leader is waited for; lag is looked at again soon."""
SILENT_MS = 5_000
"""So long a broker that did not answer is not asked again."""
KEPT_MS = 60_000
"""So long an end counts that its leader has told; older ones are unknown."""
PRODUCERS_LOOKED_AT = 16
NO_TIMESTAMP = -1
VERSION = 0

log = structlog.get_logger("kohort.lag")

Place = tuple[str, int]
"""A topic's name and a partition."""


class Position(NamedTuple):
    """From where on a partition is to be read."""

    topic: str
    partition: int
    offset: int


class Ends(NamedTuple):
    """What of a partition can be read now."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int

    def before(self, offset: int) -> int:
        """Return the end for a group that has read up to `offset`.

        Records of open transactions count for those alone that have read some, and so read uncommitted ones.
        """
        return self.last_stable_offset if offset <= self.last_stable_offset else self.high_watermark


Found = tuple[Ends, FirstRecord]


class LocalEnds:
    """The partitions that this broker leads. The loop's thread only."""

    def __init__(self, partitions: PartitionTable, workers: Workers) -> None:
        self._partitions = partitions
        self._workers = workers

    async def open(self, places: Iterable[Place]) -> None:
        """Open the logs that nobody has used since the start: their ends are not known before."""
        for topic, index in places:
            partition = self._partitions.peek(topic, index)
            if partition is not None and not partition.opened:
                try:
                    await self._partitions.opened(topic, index)
                except StorageError:
                    continue  # It is offline, which is said elsewhere.

    def ends(self, topic: str, index: int) -> Ends | None:
        """Return the ends; None where another broker leads, or nobody knows the end yet."""
        partition = self._led(topic, index)
        if partition is None:
            return None
        log, high_watermark = partition.log, partition.high_watermark
        return Ends(log.log_start_offset, partition.last_stable_offset, high_watermark)

    def _led(self, topic: str, index: int) -> Partition | None:
        partition = self._partitions.peek(topic, index)
        if partition is None or partition.resigned or partition.serving_log is None:
            return None
        if partition.leadership is not None and partition.leadership.latest_offset is None:
            return None  # An earlier leader may have shown more (KIP-207).
        return partition

    def holds_markers(self, topic: str, index: int) -> bool:
        """Return whether a partition may end with what no consumer is given, even while it is written to."""
        partition = self._partitions.peek(topic, index)
        log = None if partition is None else partition.serving_log
        if partition is None or log is None:
            return False
        if log.aborted_transactions or "compact" in partition.config.cleanup_policy:
            return True
        producers = islice(log.producers.items(), PRODUCERS_LOOKED_AT)
        return any(state.coordinator_epoch >= 0 for _, state in producers)

    async def first_records(self, positions: Sequence[Position]) -> list[FirstRecord | None]:
        """Return the first record from each position on, None where another broker leads. Reads the disk."""
        work: list[Work | None] = []
        for topic, index, offset in positions:
            ends, partition = self.ends(topic, index), self._led(topic, index)
            work.append(
                None if ends is None or partition is None else (partition.log, offset, ends.before(offset))
            )
        return await self._workers.in_thread(first_records, work)

    async def found(self, positions: Sequence[Position]) -> list[Found | None]:
        """Return all that can be told of each position."""
        ends = [self.ends(topic, index) for topic, index, _ in positions]
        firsts = await self.first_records(positions)
        return [
            None if each is None or first is None else (each, first)
            for each, first in zip(ends, firsts, strict=True)
        ]


class RemoteEnds:
    """The partitions that other brokers lead, as these told them last. The loop's thread only."""

    def __init__(
        self, metadata: MetadataStore, others: OtherBrokers | None, clock: Clock, workers: Workers
    ) -> None:
        """Without `others` this broker leads everything."""
        self._metadata = metadata
        self._others = others
        self._clock = clock
        self._workers = workers
        self._told: dict[Place, tuple[Ends, int]] = {}  # With when it was told.
        self._silent: dict[int, int] = {}  # Until when brokers that did not answer are left alone.

    @property
    def is_alone(self) -> bool:
        """Whether there are no other brokers."""
        return self._others is None

    def leader(self, topic: str, index: int) -> int | None:
        """Return which other broker leads; None where this one does, or nobody."""
        if self._others is None:
            return None
        state = self._metadata.snapshot().topics.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return None
        leader = state.partitions[index].leader
        return None if leader in (NO_LEADER, self._others.node_id) else leader

    def is_silent(self, leader: int) -> bool:
        """Return whether this broker did not answer just now."""
        return self._silent.get(leader, -1) > self._clock.now_ms()

    def ends(self, topic: str, index: int) -> Ends | None:
        """Return what was told last, unless that was too long ago."""
        told = self._told.get((topic, index))
        return None if told is None or self._clock.now_ms() - told[1] > KEPT_MS else told[0]

    def age_ms(self, topic: str, index: int) -> int | None:
        """Return how long ago the leader has told the ends, None where it has not."""
        told = self._told.get((topic, index))
        return None if told is None else self._clock.now_ms() - told[1]

    def keep_only(self, places: Iterable[Place]) -> None:
        """Forget what was told of all other partitions."""
        self._told = {place: self._told[place] for place in places if place in self._told}

    async def ask_all(
        self, asked: Mapping[int, Sequence[Position]]
    ) -> Mapping[int, Sequence[FirstRecord | None]]:
        """Return what each leader tells of these positions; those who do not answer in time are left out."""
        found: dict[int, Sequence[FirstRecord | None]] = {}
        if not asked:
            return found
        left, ended = len(asked), self._workers.event()

        async def ask(leader: int, positions: Sequence[Position]) -> None:
            nonlocal left
            try:
                answer = await self._ask(leader, positions)
                if answer is not None:
                    found[leader] = answer
            except Exception:  # A supervisor: what ails one question costs nobody but who asked it.
                log.exception("a leader could not be asked for its ends", broker=leader)
            finally:
                left -= 1
                if not left:
                    ended.set()

        for leader, positions in asked.items():
            self._workers.spawn(ask, leader, positions)
        await ended.wait()
        return found

    async def _ask(self, leader: int, positions: Sequence[Position]) -> list[FirstRecord | None] | None:
        assert self._others is not None
        answer: ReadableOffsetsResponse | None = None
        try:
            with self._workers.move_on_after(ANSWER_SECONDS):
                answer = await self._others.ask(
                    leader, readable_offsets_request(positions), ReadableOffsetsResponse, VERSION
                )
        except Unreachable:
            answer = None
        told = [] if answer is None else [each for topic in answer.topics for each in topic.positions]
        if len(told) != len(positions):
            self._silent[leader] = self._clock.now_ms() + SILENT_MS
            return None
        self._silent.pop(leader, None)
        return [self._take(*each) for each in zip(positions, told, strict=True)]

    def _take(self, position: Position, told: ReadableOffsetsFound) -> FirstRecord | None:
        if told.error_code != ErrorCode.NONE:
            return None
        ends = Ends(told.log_start_offset, told.last_stable_offset, told.high_watermark)
        self._told[position.topic, position.partition] = ends, self._clock.now_ms()
        time_ms = None if told.timestamp_ms == NO_TIMESTAMP else told.timestamp_ms
        return FirstRecord(told.first_offset, told.is_found, time_ms)


def readable_offsets_request(positions: Sequence[Position]) -> ReadableOffsetsRequest:
    """Return the question about these positions, in their order."""
    return ReadableOffsetsRequest(
        topics=tuple(
            ReadableOffsetsTopic(
                name=name,
                positions=tuple(
                    ReadableOffsetsPosition(partition_index=each.partition, offset=each.offset)
                    for each in some
                ),
            )
            for name, some in groupby(positions, attrgetter("topic"))
        )
    )


def positions_of(request: ReadableOffsetsRequest) -> Iterator[Position]:
    """Yield what a question asks about, in order."""
    for topic in request.topics:
        for each in topic.positions:
            yield Position(topic.name, each.partition_index, each.offset)


def readable_offsets_response(
    request: ReadableOffsetsRequest, found: Sequence[Found | None]
) -> ReadableOffsetsResponse:
    """Return the answer to a question: what was found, in the order of its positions."""
    told = iter(found)
    return ReadableOffsetsResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            ReadableOffsetsTopicFound(
                name=topic.name, positions=tuple(_message(next(told)) for _ in topic.positions)
            )
            for topic in request.topics
        ),
    )


def _message(found: Found | None) -> ReadableOffsetsFound:
    if found is None:
        return ReadableOffsetsFound(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ends, first = found
    return ReadableOffsetsFound(
        error_code=ErrorCode.NONE,
        log_start_offset=ends.log_start_offset,
        last_stable_offset=ends.last_stable_offset,
        high_watermark=ends.high_watermark,
        first_offset=first.offset,
        is_found=first.is_found,
        timestamp_ms=NO_TIMESTAMP if first.timestamp_ms is None else first.timestamp_ms,
    )
