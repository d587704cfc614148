"""Positions over the network: where to start, and whether another leader has truncated records already
read."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.durations import duration_ms
from kohort.client.errors import BrokerError, KohortError, LogTruncationError, NetworkError, NoOffsetError
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetched_chunk import Chunk
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    Answers,
    EpochMember,
    ask_committed,
    ask_offsets,
    by_topic,
)
from kohort.client.positions import NOT_COMMITTED, RESET, PartitionState, Stand
from kohort.client.request_parts import parts_of_mapping
from kohort.client.retry import monotonic_ms
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger(__name__)

CONSUMER_REPLICA_ID = -1
UNDEFINED = -1
_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_NOT_AVAILABLE})


class Lookups:
    """Finds and checks positions; a position changed by a seek meanwhile is not touched.

    The same holds for a seek between the plan and its task: each checks first which positions are left.

    Only the task changes a partition without a position. Changes of an existing position go into the buffer,
    like fetched records: only the reader moves it. A partition with a transient error is
    asked about again later, or its error goes into the buffer; the others continue.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        buffer: FetchBuffer,
        need_metadata: Callable[[], None] = lambda: None,
        reader: Callable[[], EpochMember | None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._buffer = buffer
        self._need_metadata = need_metadata
        self._reader = reader

    async def find_committed(self, states: Sequence[PartitionState]) -> None:
        """Let these start at the committed offset, or else by auto_offset_reset.

        Raises: KohortError about the group.
        """
        stands = {each: each.stand for each in states if each.needs_commit}
        if not stands:
            return
        answers = Answers[OffsetAndMetadata]({}, {})
        if self._config.group_id is not None:
            answers = await ask_committed(
                self._cluster,
                self._config.group_id,
                [each.partition for each in stands],
                require_stable=True,  # For any isolation_level, as in Java: pending offsets may be committed.
                member=self._reader(),
            )
        for state, stand in stands.items():
            found, error = answers.found.get(state.partition), answers.errors.get(state.partition)
            if error is not None:
                self._failed(state, stand, error)
            elif state.stand is not stand:
                continue
            elif found is not None:
                state.seek(found.offset, found.leader_epoch)
            else:
                state.reset_to = NOT_COMMITTED

    async def look_up(self, node_id: int, states: Sequence[PartitionState]) -> None:
        """Ask the leader of these partitions for the offsets that they are to be read from.

        Raises: KohortError about all of them.
        """
        stands: dict[TopicPartition, tuple[PartitionState, Stand]] = {}
        wanted: dict[TopicPartition, int] = {}
        for state in states:
            if not state.needs_offset:
                continue
            try:
                wanted[state.partition] = self._timestamp(state)
                stands[state.partition] = state, state.stand
            except NoOffsetError as refusal:
                self._failed(state, state.stand, refusal)
        if not wanted:
            return
        answers = await self._ask(node_id, wanted)
        behind = {each: LATEST for each, found in answers.found.items() if found.offset < 0}
        if behind:  # There is no record as young as that.
            ends = await self._ask(node_id, behind)
            answers.found.update(ends.found)
            answers.errors.update(ends.errors)
        for partition, error in answers.errors.items():
            self._failed(*stands[partition], error)
        for partition, found in answers.found.items():
            state, stand = stands[partition]
            if state.stand is stand and partition not in answers.errors:
                state.seek(found.offset)  # It comes from the leader: there is no epoch to check.

    async def _ask(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> Answers[OffsetAndTimestamp]:
        committed_only = self._config.reads_committed
        return await ask_offsets(self._cluster, node_id, timestamps, committed_only=committed_only)

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

    def _failed(self, state: PartitionState, stand: Stand, error: KohortError) -> None:
        if state.stand is not stand:
            return
        logger.debug("looking up %s: %s", state.partition, error)
        config = self._config
        state.retry_later(monotonic_ms(), config.retry_backoff_ms, config.retry_backoff_max_ms)
        if error.retriable:
            what = f"the position of {state.partition} is not found yet: {error}"
            self._cluster.warnings.say(state.partition, what, after_ms=PATIENCE_MS)
            self._need_metadata()
        else:
            self._buffer.add(Chunk(state, failure=error))

    async def validate(self, node_id: int, states: Sequence[PartitionState]) -> None:
        """Ask a leader where the epoch that a position was read under has ended (KIP-320).

        A position after that end was read from a log that was truncated since: the necessary change
        goes into the buffer. A position that has moved meanwhile is checked again.
        Raises: KohortError about all of them.
        """
        asked: dict[TopicPartition, _Question] = {}
        for state in states:
            leader = self._cluster.leader(state.partition)
            is_unsure = state.position is not None and state.needs_validation(leader.leader_epoch)
            if is_unsure and leader.leader == node_id:
                state.void()
                question = _Question(state, state.stand, leader.leader_epoch, _reached(state.stand))
                asked[state.partition] = question
        if not asked:
            return
        for part in tuple(parts_of_mapping(asked)):
            await self._ask_epochs(node_id, part)

    async def _ask_epochs(self, node_id: int, asked: "dict[TopicPartition, _Question]") -> None:
        response = await self._cluster.request(node_id, _epochs_request(asked), OffsetForLeaderEpochResponse)
        for topic in response.topics:
            for answer in topic.partitions:
                found = asked.pop(TopicPartition(topic.topic, answer.partition), None)
                if found is not None:
                    self._settle(found, answer)
        for each in asked.values():
            left_out = NetworkError(f"the broker's answer leaves {each.state.partition} out")
            self._failed(each.state, each.stand, left_out)

    def _settle(self, asked: "_Question", answer: OffsetForLeaderEpochResponseEpochEndOffset) -> None:
        state, reached = asked.state, asked.reached
        if answer.error_code:
            code = ErrorCode.LEADER_NOT_AVAILABLE if answer.error_code in _ASK_AGAIN else answer.error_code
            self._failed(state, asked.stand, BrokerError(code, f"partition {state.partition}"))
            return
        if state.stand is not asked.stand or _reached(state.stand) != reached:
            return
        state.failures = 0
        state.validated_epoch = asked.leader_epoch
        is_unknown = UNDEFINED in (answer.end_offset, answer.leader_epoch)
        if is_unknown or answer.end_offset < reached.offset:
            end = OffsetAndMetadata(answer.end_offset, leader_epoch=answer.leader_epoch)
            failure = LogTruncationError(state.partition, reached, None if is_unknown else end)
            self._buffer.add(Chunk(state, failure=failure))


class _Question(NamedTuple):
    """The question to a leader about a position."""

    state: PartitionState
    stand: Stand
    leader_epoch: int
    reached: OffsetAndMetadata


def _reached(stand: Stand) -> OffsetAndMetadata:
    """Return where the reader is."""
    return OffsetAndMetadata(stand.position or 0, leader_epoch=stand.leader_epoch)


def _epochs_request(asked: Mapping[TopicPartition, _Question]) -> OffsetForLeaderEpochRequest:
    def partition(each: TopicPartition) -> OffsetForLeaderPartition:
        return OffsetForLeaderPartition(
            partition=each.partition,
            current_leader_epoch=asked[each].leader_epoch,
            leader_epoch=asked[each].reached.leader_epoch,
        )

    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=tuple(
            OffsetForLeaderTopic(topic=topic, partitions=items)
            for topic, items in by_topic(asked, partition).items()
        ),
    )
