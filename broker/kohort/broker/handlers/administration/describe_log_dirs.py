"""DescribeLogDirs: how many bytes each partition takes in the data folder, and how many are left."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

LOG_SUFFIX = ".log"
UNKNOWN = -1

Wanted = Mapping[str, Iterable[int]]


async def handle(
    admin: Administration, message: DescribeLogDirsRequest, request: Request
) -> DescribeLogDirsResponse:
    """Return the sizes of the files: they include everything on the disk."""
    wanted = _wanted(admin.metadata.snapshot(), message)
    result = await admin.workers.in_thread(_measured, admin.data_path, wanted, limiter=admin.measuring)
    return DescribeLogDirsResponse(throttle_time_ms=0, results=(result,))


def _wanted(snapshot: Snapshot, message: DescribeLogDirsRequest) -> Wanted:
    """Return the partitions to measure by topic; those that are not there are passed over."""
    counts = {name: len(topic.partitions) for name, topic in snapshot.topics.items()}
    if message.topics is None:
        return {name: range(count) for name, count in counts.items()}
    return {
        each.topic: [index for index in dict.fromkeys(each.partitions) if 0 <= index < counts[each.topic]]
        for each in message.topics
        if each.topic in counts
    }


def _measured(folder: Path, wanted: Wanted) -> DescribeLogDirsResult:
    topics = tuple(
        DescribeLogDirsTopic(name=name, partitions=partitions)
        for name, indexes in wanted.items()
        if (partitions := tuple(_partition(folder, name, index) for index in indexes))
    )
    total, usable = _disk(folder)
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=str(folder),
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
    )


def _partition(folder: Path, topic: str, index: int) -> DescribeLogDirsPartition:
    size = _log_bytes(folder / f"{topic}-{index}")
    return DescribeLogDirsPartition(
        partition_index=index, partition_size=size, offset_lag=0, is_future_key=False
    )


def _log_bytes(folder: Path) -> int:
    """Return the bytes of the segments in the folder; 0 where nothing was written yet."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    return sum(_file_bytes(folder / name) for name in names if name.endswith(LOG_SUFFIX))


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # Retention took the segment away in the meantime.
        return 0


def _disk(folder: Path) -> tuple[int, int]:
    """Return the size of the disk and the free space for this process, or -1 if unknown."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return UNKNOWN, UNKNOWN
    return usage.total, usage.free
