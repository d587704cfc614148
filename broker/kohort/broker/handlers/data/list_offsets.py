"""ListOffsets: the ends of a log, or the first record at or after a time.

Source: KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp; KIP-734 (the record with
the largest timestamp), KIP-405 and KIP-1005 (tiers, of which there are none here), KIP-1023.
"""

from collections import Counter

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.reader import READ_COMMITTED
from kohort.broker.partitions.partition import Partition
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.storage import StorageError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSION_OF = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
CONSUMER = -1
FIRST_VERSION_WITH_UNKNOWN_ENDS = 5

Found = tuple[int, int, int]
"""Offset, timestamp, leader epoch; each -1 if there is none."""

NOTHING: Found = (-1, -1, -1)


def handle(data: Data, message: ListOffsetsRequest, request: Request) -> ListOffsetsResponse:
    """Return the offsets."""
    asked = Counter(
        (topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions
    )
    finder = _Finder(
        data,
        request.version,
        is_consumer=message.replica_id == CONSUMER,
        wants_committed=message.isolation_level == READ_COMMITTED,
    )
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    finder.answer(topic.name, each, twice=asked[topic.name, each.partition_index] > 1)
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


class _Finder:
    """Finds the offsets of one request."""

    def __init__(self, data: Data, version: int, *, is_consumer: bool, wants_committed: bool) -> None:
        self._table = data.partitions
        self._version = version
        self._is_consumer = is_consumer
        self._wants_committed = wants_committed

    def answer(self, topic: str, asked: ListOffsetsPartition, *, twice: bool) -> ListOffsetsPartitionResponse:
        """Return the answer for one partition."""
        if twice:
            return _refused(asked, ErrorCode.INVALID_REQUEST)
        try:
            partition = self._table.serving(topic, asked.partition_index, asked.current_leader_epoch)
            offset, timestamp, leader_epoch = self._find(partition, asked.timestamp)
        except ApiError as error:
            return _refused(asked, error.code)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=0,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=leader_epoch if self._version >= 4 else -1,
        )

    def _find(self, partition: Partition, timestamp: int) -> Found:
        """Return the offset for a timestamp or a special one. Raises: ApiError."""
        if self._version < FIRST_VERSION_OF.get(timestamp, 0):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if timestamp == LATEST:
            self._check_end(partition)
            return self._end_offset(partition), -1, partition.leader_epoch
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return _earliest(partition)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return NOTHING
        try:
            if timestamp == MAX_TIMESTAMP:
                found = partition.log.offset_for_max_timestamp()
            else:
                found = partition.log.offset_for_timestamp(timestamp)
        except StorageError as error:
            partition.failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if found is None:
            return NOTHING
        if found[0] < self._end_offset(partition):
            return found
        self._check_end(partition)  # It may be committed: a client without an offset would start at the end.
        return NOTHING

    def _check_end(self, partition: Partition) -> None:
        """Return unless the committed end is not known yet. Raises: ApiError."""
        if self._is_consumer and is_end_unknown(partition):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE
                if self._version >= FIRST_VERSION_WITH_UNKNOWN_ENDS
                else ErrorCode.LEADER_NOT_AVAILABLE
            )

    def _end_offset(self, partition: Partition) -> int:
        """Return the first offset that the requester can't fetch; a tool that debugs sees all there is."""
        if not self._is_consumer:
            return partition.log.log_end_offset
        return partition.last_stable_offset if self._wants_committed else partition.high_watermark


def is_end_unknown(partition: Partition) -> bool:
    """Return whether an earlier leader may have shown records that this one does not know to be committed
    (KIP-207)."""
    return partition.leadership is not None and partition.leadership.latest_offset is None


def _refused(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)


def _earliest(partition: Partition) -> Found:
    start_offset = partition.log.log_start_offset
    return start_offset, -1, partition.log.epoch_at(start_offset)
