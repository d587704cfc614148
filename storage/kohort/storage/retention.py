"""Which segments of a log may go, by its start, its size and their age. Nothing is touched here.

Source: org.apache.kafka.storage.internals.log.UnifiedLog.deleteOldSegments and its neighbours.
"""

from collections.abc import Sequence

from kohort.storage.config import LogConfig
from kohort.storage.segment import Segment

NO_LIMIT = -1


def removable_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Return how many segments, the oldest first, may be deleted: always those before the log's start.

    Records that readers have not seen stay. The active segment may be included, unless it is empty.
    Raises: OSError.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    count = sum(1 for end in ends[:-1] if end <= log_start_offset)
    if "delete" not in config.cleanup_policy:
        return count
    seen = sum(1 for end in ends if end <= high_watermark)
    if not segments[-1].size_bytes:
        seen = min(seen, len(segments) - 1)
    count = _beyond_size(segments, count, seen, config.retention_bytes)
    while count < seen and _is_too_old(segments[count:], config.retention_ms, now_ms):
        count += 1
    return count


def _beyond_size(segments: Sequence[Segment], count: int, seen: int, retention_bytes: int) -> int:
    if retention_bytes == NO_LIMIT:
        return count
    surplus = sum(segment.size_bytes for segment in segments[count:]) - retention_bytes
    while count < seen and segments[count].size_bytes <= surplus:
        surplus -= segments[count].size_bytes
        count += 1
    return count


def _is_too_old(segments: Sequence[Segment], retention_ms: int, now_ms: int) -> bool:
    """Whether the newest record of the first segment is; one without records goes with the next."""
    if retention_ms == NO_LIMIT:
        return False
    newest_ms = next((newest for each in segments if (newest := each.newest_timestamp()[0]) >= 0), None)
    return newest_ms is not None and now_ms - newest_ms > retention_ms
