"""The log start offset and the high watermark of a partition, for any leader."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.metadata import NO_LEADER
from kohort.broker.partitions import Partition
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LIST_OFFSETS_VERSION = 7
EARLIEST, LATEST = -2, -1
CONSUMER = -1


class LogEnds(NamedTuple):
    """The log start offset of a partition, and its high watermark."""

    start_offset: int
    high_watermark: int


Answered = Callable[[LogEnds | None], None]


class LogEndsAnywhere:
    """Looks log ends up, here or at another broker that leads. The loop's thread only."""

    def __init__(self, services: CoordinatorServices) -> None:
        self._metadata = services.metadata
        self._partitions = services.partitions
        self._workers = services.workers
        self._others = services.others

    def ask(self, topic_id: UUID, index: int, answered: Answered) -> None:
        """Call `answered` with the ends, or with None if no broker can return them now.

        If the log is not open yet, a thread opens it first.
        """
        partition = self._partitions.peek(topic_id, index)
        if partition is None or partition.opened:
            self._ask_open(partition, topic_id, index, answered)
        else:
            self._workers.spawn(self._open_and_ask, partition, answered)

    async def _open_and_ask(self, partition: Partition, answered: Answered) -> None:
        await self._partitions.opening.opened((partition,))
        self._ask_open(partition, partition.topic_id, partition.index, answered)

    def _ask_open(self, partition: Partition | None, topic_id: UUID, index: int, answered: Answered) -> None:
        """Answer from the open log if it serves, or else ask the leader."""
        if partition is not None and partition.error_code is None and partition.opened:
            answered(LogEnds(partition.log.log_start_offset, partition.high_watermark))
            return
        snapshot = self._metadata.snapshot()
        topic = snapshot.topics_by_id.get(topic_id)
        leader = NO_LEADER
        if topic is not None and 0 <= index < len(topic.partitions):
            leader = topic.partitions[index].leader
        if topic is None or self._others is None or leader in (NO_LEADER, self._others.node_id):
            answered(None)
        else:
            self._workers.spawn(self._ask, self._others, leader, topic.name, index, answered)

    async def _ask(
        self, others: OtherBrokers, leader: int, name: str, index: int, answered: Answered
    ) -> None:
        found = []
        for timestamp in (EARLIEST, LATEST):
            asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=0,
                topics=(ListOffsetsTopic(name=name, partitions=(asked,)),),
            )
            try:
                answer = await others.ask(leader, request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
            except Unreachable:
                break
            found += [
                each.offset
                for topic in answer.topics
                for each in topic.partitions
                if each.error_code == ErrorCode.NONE
            ]
        answered(LogEnds(*found) if len(found) == len(LogEnds._fields) else None)
