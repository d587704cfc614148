"""The ends of partitions that other brokers lead: the leaders are asked, and their answers are cached."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import structlog

from kohort.broker.lag.ends import Ends, Found, Position, TopicPartition
from kohort.broker.lag.first_record import FirstRecord
from kohort.broker.metadata import NO_LEADER, MetadataStore
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

ANSWER_SECONDS = 2.0
"""The timeout of a leader's answer. The next update comes soon."""
SILENT_MS = 5_000
"""How long a broker that did not answer is not asked again."""
KEPT_MS = 60_000
"""How long a leader's answer is valid. Older ends are unknown."""
NO_TIMESTAMP = -1
VERSION = 0

log = structlog.get_logger("kohort.lag")


class RemoteEnds:
    """The partitions that other brokers lead, from their last answers. The loop's thread only."""

    def __init__(self, metadata: MetadataStore, others: OtherBrokers, clock: Clock, workers: Workers) -> None:
        self._metadata = metadata
        self._others = others
        self._clock = clock
        self._workers = workers
        self._received_ends: dict[TopicPartition, tuple[Ends, int]] = {}  # ends, and when they were received
        self._silent: dict[int, int] = {}  # until when a silent broker is not asked

    def leader(self, topic: str, index: int) -> int | None:
        """Return the other broker that leads, or None if this broker or none leads."""
        state = self._metadata.snapshot().topics.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return None
        leader = state.partitions[index].leader
        return None if leader in (NO_LEADER, self._others.node_id) else leader

    def is_silent(self, leader: int) -> bool:
        """Return whether this broker has not answered recently."""
        return self._silent.get(leader, -1) > self._clock.now_ms()

    def ends(self, topic: str, index: int) -> Ends | None:
        """Return the last known ends, unless they are too old."""
        told = self._received_ends.get((topic, index))
        return None if told is None or self._clock.now_ms() - told[1] > KEPT_MS else told[0]

    def age_ms(self, topic: str, index: int) -> int | None:
        """Return the age of the last known ends, or None."""
        told = self._received_ends.get((topic, index))
        return None if told is None else self._clock.now_ms() - told[1]

    def keep_only(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the ends of all other partitions."""
        self._received_ends = {
            each: self._received_ends[each] for each in partitions if each in self._received_ends
        }

    async def ask_all(
        self, asked: Mapping[int, Sequence[Position]]
    ) -> Mapping[int, Sequence[FirstRecord | None]]:
        """Ask each leader for its positions. The result has only leaders that answer in time."""
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
            except Exception:  # A supervisor: one failed request must not stop the others.
                log.exception("a leader could not be asked for its end offsets", broker=leader)
            finally:
                left -= 1
                if not left:
                    ended.set()

        for leader, positions in asked.items():
            self._workers.spawn(ask, leader, positions)
        await ended.wait()
        return found

    async def _ask(self, leader: int, positions: Sequence[Position]) -> list[FirstRecord | None] | None:
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
        self._received_ends[position.topic, position.partition] = ends, self._clock.now_ms()
        time_ms = None if told.timestamp_ms == NO_TIMESTAMP else told.timestamp_ms
        return FirstRecord(told.first_offset, told.is_found, time_ms)


def readable_offsets_request(positions: Sequence[Position]) -> ReadableOffsetsRequest:
    """Return the request for these positions, in their order."""
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
    """Yield the positions of a request, in order."""
    for topic in request.topics:
        for each in topic.positions:
            yield Position(topic.name, each.partition_index, each.offset)


def readable_offsets_response(
    request: ReadableOffsetsRequest, found: Sequence[Found | None]
) -> ReadableOffsetsResponse:
    """Return the response to a request, in the order of its positions."""
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
