"""Positions over the network: where to begin, and whether another leader has cut off what was read."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig, duration_ms
from kohort.client.errors import BrokerError, LogTruncationError, NoOffsetError
from kohort.client.fetch_buffer import Chunk, FetchBuffer
from kohort.client.offsets import EARLIEST, LATEST, by_topic, fetch_committed, list_offsets
from kohort.client.positions import RESET, PartitionState, Stand
from kohort.client.values import OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONSUMER_REPLICA_ID = -1
UNDEFINED = -1
_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_NOT_AVAILABLE})


class Lookups:
    """Finds and checks positions; what a seek has overtaken meanwhile is left alone.

    A partition without a position is nobody's else. What moves a position that there is goes into the buffer,
    as what was fetched does: who reads is the one who moves it.
    """

    def __init__(self, cluster: Cluster, config: ConsumerConfig, buffer: FetchBuffer) -> None:
        self._cluster = cluster
        self._config = config
        self._buffer = buffer

    async def find(self, states: Sequence[PartitionState]) -> None:
        """Give every partition a position: a committed one, or what auto_offset_reset says.

        Raises: KohortError; NoOffsetError where that is "none".
        """
        stands = {each: each.stand for each in states}
        fresh = [each for each in states if each.reset_to is None]
        if fresh and self._config.group_id is not None:
            partitions = [each.partition for each in fresh]
            committed = await fetch_committed(
                self._cluster,
                self._config.group_id,
                partitions,
                require_stable=self._config.reads_committed,
            )
            for state in fresh:
                found = committed.get(state.partition)
                if found is not None and state.stand is stands[state]:
                    state.seek(found.offset, found.leader_epoch)
        without = {each: stand for each, stand in stands.items() if each.stand is stand}
        if without:
            await self._look_up(without)

    async def _look_up(self, stands: Mapping[PartitionState, Stand]) -> None:
        wanted = {each.partition: self._timestamp(each) for each in stands}
        committed = self._config.reads_committed
        found = await list_offsets(self._cluster, wanted, committed_only=committed)
        behind = {each: LATEST for each in wanted if found[each].offset < 0}
        if behind:  # There is no record as young as that.
            found |= await list_offsets(self._cluster, behind, committed_only=committed)
        for state, stand in stands.items():
            if state.stand is stand:
                each = found[state.partition]
                state.seek(each.offset)  # It is the leader's own word: there is no epoch to check.

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

    async def validate(self, states: Sequence[PartitionState]) -> None:
        """Ask the leaders where the epoch that a position was read under has ended (KIP-320).

        A position behind that end was read from a log that has been cut off since: what the reader has to do
        about it goes into the buffer. One that has moved meanwhile is asked about again. Raises: KohortError.
        """
        asked: dict[int, dict[TopicPartition, _Question]] = {}
        for state in states:
            leader = self._cluster.leader(state.partition)
            state.void()
            question = _Question(state, state.stand, leader.leader_epoch, _reached(state.stand))
            asked.setdefault(leader.leader, {})[state.partition] = question
        for node_id, of_leader in asked.items():
            request = _epochs_request(of_leader)
            response = await self._cluster.request(node_id, request, OffsetForLeaderEpochResponse)
            for topic in response.topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.topic, answer.partition)
                    if partition in of_leader:
                        self._settle(of_leader[partition], answer)

    def _settle(self, asked: "_Question", answer: OffsetForLeaderEpochResponseEpochEndOffset) -> None:
        state, reached = asked.state, asked.reached
        if answer.error_code in _ASK_AGAIN:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {state.partition}")
        if answer.error_code:
            raise BrokerError(answer.error_code, f"partition {state.partition}")
        if state.stand is not asked.stand or _reached(state.stand) != reached:
            return
        state.validated_epoch = asked.leader_epoch
        is_unknown = UNDEFINED in (answer.end_offset, answer.leader_epoch)
        if is_unknown or answer.end_offset < reached.offset:
            end = OffsetAndMetadata(answer.end_offset, leader_epoch=answer.leader_epoch)
            failure = LogTruncationError(state.partition, reached, None if is_unknown else end)
            self._buffer.add(Chunk(state, failure=failure))


class _Question(NamedTuple):
    """What a leader is asked about a position."""

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
