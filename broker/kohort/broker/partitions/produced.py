"""Checks produced batches against a topic's settings, and compresses them as these ask.

Every record is checked, as Kafka does. Nothing here uses a partition, so that expensive batches are checked
in any thread. Source: Kafka's LogValidator and UnifiedLog.analyzeAndValidateRecords.
"""

import msgspec

from kohort.broker.config import TopicConfig
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.records import BatchHeader, Compression, read_header, recompress
from kohort.protocol.records.checking import (
    ANY_TIMESTAMP,
    CheckedRecords,
    TimestampBounds,
    check_payload,
    read_payload,
    with_max_timestamp,
)
from kohort.protocol.records.work_budget import WorkBudget, WorkBudgetExceeded

COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
FIRST_VERSION_WITH_ZSTD = 7


class RecordsRejected(ApiError):
    """Some records of a batch can't be taken, and so none is; `record_errors` says which and why."""

    def __init__(self, code: ErrorCode, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, "One or more records have been rejected")
        self.record_errors = record_errors


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where records went. `log_append_time_ms` is -1 if they keep their own timestamps."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Produced(msgspec.Struct, frozen=True, gc=False):
    """A client's batch as it may be appended, and its header."""

    records: bytes | memoryview
    header: BatchHeader


def prepare(
    config: TopicConfig, records: bytes | memoryview, header: BatchHeader, now_ms: int, budget: WorkBudget
) -> Produced:
    """Return the batch that `records` begin with as it may be appended: as it came, where that will do.

    Every record is checked, compressed or not: one that does not decompress, or whose lengths, count or
    offsets contradict each other, would stop each reader, and the cleaner. Raises: WorkBudgetExceeded if
    that is more work than allowed; the ApiError that Kafka returns for such a batch, and for one that the
    topic's settings forbid.
    """
    batch = records[: header.size_bytes]
    check_sizes(config, batch, header)
    if header.has_log_append_time:
        message = "A producer may not set the timestamp type to LogAppendTime"
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, ((0, message),))
    bounds = _timestamp_bounds(config, now_ms)
    try:
        payload = read_payload(batch, header, budget)
        checked = check_payload(payload, header, bounds, budget)
    except WorkBudgetExceeded:
        raise
    except WireError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    if "compact" in config.cleanup_policy:
        _check_keys(checked)
    _check_times(checked, bounds)
    if checked.max_timestamp != header.max_timestamp:
        batch = with_max_timestamp(batch, checked.max_timestamp)  # As Kafka corrects it.
        header = read_header(batch)
    used = header.compression
    wanted = COMPRESSIONS.get(config.compression_type, used)
    if wanted is not used:
        budget.spend_compression(len(payload))
        batch = recompress(header, payload, wanted)
        header = read_header(batch)
        check_sizes(config, batch, header)
    return Produced(batch, header)


def too_much_work(error: WorkBudgetExceeded) -> ApiError:
    """Return the error for a batch that is too expensive to check: the producer can send it in parts."""
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error))


def check_sizes(config: TopicConfig, batch: bytes | memoryview, header: BatchHeader) -> None:
    """Raise MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE if it exceeds the topic's limits."""
    if header.size_bytes > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A batch of {header.size_bytes} bytes; max.message.bytes is {config.max_message_bytes}",
        )
    if len(batch) > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(batch)} bytes are more than segment.bytes, {config.segment_bytes}",
        )


def _check_keys(checked: CheckedRecords) -> None:
    if checked.without_key:
        message = "A compacted topic takes no record without a key"
        rejected = tuple((index, message) for index in checked.without_key)
        raise RecordsRejected(ErrorCode.INVALID_RECORD, rejected)


def _timestamp_bounds(config: TopicConfig, now_ms: int) -> TimestampBounds:
    if config.message_timestamp_type != "CreateTime":
        return ANY_TIMESTAMP
    return TimestampBounds(
        now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    )


def _check_times(checked: CheckedRecords, bounds: TimestampBounds) -> None:
    if checked.out_of_bounds:
        between = f"is not between {bounds.earliest_ms} and {bounds.latest_ms}"
        rejected = tuple(
            (index, f"Timestamp {time_ms} {between}") for index, time_ms in checked.out_of_bounds
        )
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, rejected)


def check_compression(header: BatchHeader, version: int) -> None:
    """Raise UNSUPPORTED_COMPRESSION_TYPE for zstd in a Produce version from before it (KIP-110)."""
    if version < FIRST_VERSION_WITH_ZSTD and header.compression is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {FIRST_VERSION_WITH_ZSTD}, this is {version}",
        )
