"""DeleteRecords: move the start of logs forward; segments that lie before it wholly are deleted.

Source: ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader.
"""

from typing import NamedTuple

from kohort.broker.handlers.data.family import Data
from kohort.broker.metadata import INTERNAL_TOPICS
from kohort.broker.partitions import Partition
from kohort.broker.partitions.low_watermarks import Start
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.storage import StorageError

TO_THE_HIGH_WATERMARK = -1
NO_OFFSET = -1


class _Deletion(NamedTuple):
    """What became of one partition here, and where the others of its replicas are to begin as well."""

    result: DeleteRecordsPartitionResult
    start: Start | None = None


async def handle(data: Data, message: DeleteRecordsRequest, request: Request) -> DeleteRecordsResponse:
    """Return each log's new start, once it is on the disk of all replicas, or the request's time is up.

    A lagging replica might lead next, and deleted records be read again.
    """
    deletions = [
        (topic.name, [await _delete(data, topic.name, asked) for asked in topic.partitions])
        for topic in message.topics
    ]
    try:
        await data.partitions.folder.save_log_starts()
    except StorageError:
        results = [(name, [_not_saved(each.result) for each in all_]) for name, all_ in deletions]
    else:
        starts = [each.start for _, all_ in deletions for each in all_ if each.start is not None]
        await data.partitions.until_begun_everywhere(starts, message.timeout_ms)
        results = [(name, [_outcome(each) for each in all_]) for name, all_ in deletions]
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=tuple(DeleteRecordsTopicResult(name=name, partitions=tuple(all_)) for name, all_ in results),
    )


async def _delete(data: Data, topic: str, asked: DeleteRecordsPartition) -> _Deletion:
    index = asked.partition_index
    try:
        partition = data.partitions.serving(topic, index)
        leadership = partition.leadership
        offset = await _move_start(data, topic, asked)
    except ApiError as error:
        return _Deletion(_result(index, NO_OFFSET, error.code))
    start = None
    if leadership is not None:
        partition.wake_replicas()  # Followers that wait for records are woken at once.
        start = Start(partition, leadership, offset)
    return _Deletion(_result(index, partition.log.log_start_offset), start)


def _outcome(deletion: _Deletion) -> DeleteRecordsPartitionResult:
    """Return a partition's result after the wait for its replicas."""
    result, start = deletion
    if start is None:
        return result
    if start.is_over:
        return _result(result.partition_index, NO_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    code = ErrorCode.NONE if start.is_everywhere else ErrorCode.REQUEST_TIMED_OUT
    return _result(result.partition_index, start.leadership.low_watermark, code)


async def _move_start(data: Data, topic: str, asked: DeleteRecordsPartition) -> int:
    """Return from which offset on there are records afterwards. Raises: ApiError."""
    partition = data.partitions.serving(topic, asked.partition_index)
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if "delete" not in partition.config.cleanup_policy:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if asked.offset == TO_THE_HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= partition.high_watermark:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > partition.log.log_start_offset:
        try:
            await _delete_before(data, partition, offset)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return offset


async def _delete_before(data: Data, partition: Partition, offset: int) -> None:
    """Move the log start there. Raises: StorageError, also if the log was reopened."""
    asked_of = partition.log

    def move() -> None:
        if partition.serving_log is not asked_of or partition.deleted:
            raise StorageError(f"{partition} was opened anew")
        asked_of.delete_records_before(offset, data.clock.wall_ms())

    try:
        await data.partitions.between_writes(partition, move)
    except StorageError as error:
        if partition.serving_log is asked_of and asked_of.failure is not None:
            partition.failed(error)
        raise


def _result(
    index: int, low_watermark: int, error_code: ErrorCode = ErrorCode.NONE
) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=error_code
    )


def _not_saved(result: DeleteRecordsPartitionResult) -> DeleteRecordsPartitionResult:
    """Return the result where the new start may be forgotten after a crash."""
    if result.error_code:
        return result
    return _result(result.partition_index, NO_OFFSET, ErrorCode.KAFKA_STORAGE_ERROR)
