"""OffsetForLeaderEpoch: where the records of a leader epoch end (KIP-101, KIP-320)."""

from kohort.broker.handlers.data.family import Data
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    data: Data, message: OffsetForLeaderEpochRequest, request: Request
) -> OffsetForLeaderEpochResponse:
    """Return the epochs' ends."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(data, topic.topic, each) for each in topic.partitions),
            )
            for topic in message.topics
        )
    )


def _answer(
    data: Data, topic: str, asked: OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    try:
        partition = data.partitions.serving(topic, asked.partition, asked.current_leader_epoch)
    except ApiError as error:
        return OffsetForLeaderEpochResponseEpochEndOffset(partition=asked.partition, error_code=error.code)
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return OffsetForLeaderEpochResponseEpochEndOffset(
        partition=asked.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset
    )
