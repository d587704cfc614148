"""Which segments of a log may go, by its start, its size and their age. Nothing is touched here.

Source: org.apache.kafka.storage.internals.log.UnifiedLog.deleteOldSegments and its neighbours.
"""

from collections.abc import Sequence

from kohort.protocol.records import NO_TIMESTAMP
from kohort.storage.config import LogConfig
from kohort.storage.filesystem import FileSystem
from kohort.storage.index import TimeIndex
from kohort.storage.layout import SEGMENT_FILE
from kohort.storage.scan import iterate_headers
from kohort.storage.segment import LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name
from kohort.storage.swapping import CLEANED, DELETED, SWAP

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
    """Return how many segments, the oldest first, may go: what lies before the log's start in any case.

    Nothing that readers have not seen goes. The active segment may be among them, unless it is empty.
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


def may_have_old_segments(
    file_system: FileSystem, path: str, config: LogConfig, *, log_start_offset: int, now_ms: int
) -> bool:
    """Whether a sound log that is not open may have segments that are to go; who opens it knows.

    False where names and sizes of its files, and one timestamp, say that all of it is to stay, in a sixth of
    the time that opening takes. Raises: OSError, StorageError.
    """
    names = file_system.list_directory(path) or []
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if SEGMENT_FILE.fullmatch(name))
    if not bases or any(name.endswith((CLEANED, DELETED, SWAP)) for name in names):
        return True  # Who opens the log makes it, or removes what was left.
    sizes = [file_system.size(f"{path}/{file_name(base, LOG_SUFFIX)}") or 0 for base in bases]
    if bases[1:] and bases[1] <= log_start_offset:
        return True
    if "delete" not in config.cleanup_policy:
        return False
    if config.retention_bytes != NO_LIMIT and sizes[0] <= sum(sizes) - config.retention_bytes:
        return True
    oldest = next((each for each in zip(bases, sizes, strict=True) if each[1]), None)
    if config.retention_ms == NO_LIMIT or oldest is None:
        return False
    return now_ms - _known_timestamp(file_system, path, *oldest) > config.retention_ms


def _known_timestamp(file_system: FileSystem, path: str, base_offset: int, size_bytes: int) -> int:
    """Return a timestamp that a segment's newest record has, or is later than; -1 where nothing says so."""
    name = f"{path}/{file_name(base_offset, TIME_INDEX_SUFFIX)}"
    timestamp, _ = TimeIndex(file_system, name, base_offset).last()
    if timestamp != NO_TIMESTAMP:
        return timestamp
    log = file_system.open(f"{path}/{file_name(base_offset, LOG_SUFFIX)}")
    return next((header.max_timestamp for _, header in iterate_headers(log, 0, size_bytes)), NO_TIMESTAMP)
