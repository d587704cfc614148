"""What a topic's settings demand of produced batches, and the compression that they ask for.

The common path looks at headers alone; records are walked where a setting is about records.
Source: Kafka's LogValidator and UnifiedLog.analyzeAndValidateRecords.
"""

from collections.abc import Sequence

from kohort.broker.config import TopicConfig
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.records import (
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    Record,
    build_batch,
    iterate_batches,
    iterate_records,
    read_header,
)

NO_LIMIT_MS = 2**63 - 1
PRODUCER_CHOOSES = "producer"
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


def check_produced(
    config: TopicConfig, records: bytes | memoryview, headers: Sequence[BatchHeader], now_ms: int
) -> None:
    """Raise the ApiError that Kafka answers for batches that the topic's settings forbid."""
    check_sizes(config, records, headers)
    if "compact" in config.cleanup_policy:
        _check_keys(records)
    _check_timestamps(config, records, headers, now_ms)


def check_sizes(config: TopicConfig, records: bytes | memoryview, headers: Sequence[BatchHeader]) -> None:
    """Raise MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE for what the topic has no room for."""
    for header in headers:
        if header.size_bytes > config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A batch of {header.size_bytes} bytes; max.message.bytes is {config.max_message_bytes}",
            )
    if len(records) > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} bytes are more than segment.bytes, {config.segment_bytes}",
        )


def _check_keys(records: bytes | memoryview) -> None:
    message = "A compacted topic takes no record without a key"
    keyless = tuple((place, message) for place, record in _numbered(records) if record.key is None)
    if keyless:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, keyless)


def _check_timestamps(
    config: TopicConfig, records: bytes | memoryview, headers: Sequence[BatchHeader], now_ms: int
) -> None:
    if any(header.has_log_append_time for header in headers):
        message = "A producer may not set the timestamp type to LogAppendTime"
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, ((0, message),))
    if config.message_timestamp_type != "CreateTime":
        return
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    latest_ms, earliest_ms = now_ms + after_ms, now_ms - before_ms
    if before_ms == NO_LIMIT_MS and all(header.max_timestamp <= latest_ms for header in headers):
        return  # What the header says is enough, as long as the past has no limit.
    rejected = tuple(
        (place, f"Timestamp {record.timestamp} is not between {earliest_ms} and {latest_ms}")
        for place, record in _numbered(records)
        if record.timestamp != NO_TIMESTAMP and not earliest_ms <= record.timestamp <= latest_ms
    )
    if rejected:
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, rejected)


def _numbered(records: bytes | memoryview) -> list[tuple[int, Record]]:
    """Return every record with its place. Raises: ApiError INVALID_RECORD where one can't be read."""
    try:
        return list(
            enumerate(record for batch in iterate_batches(records) for record in iterate_records(batch))
        )
    except WireError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error


def check_compression(headers: Sequence[BatchHeader], version: int) -> None:
    """Raise UNSUPPORTED_COMPRESSION_TYPE for zstd in a Produce version from before it (KIP-110)."""
    if version < FIRST_VERSION_WITH_ZSTD and any(each.compression is Compression.ZSTD for each in headers):
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {FIRST_VERSION_WITH_ZSTD}, this is {version}",
        )


def convert(
    compression_type: str, records: bytes | memoryview, headers: Sequence[BatchHeader]
) -> tuple[bytes | memoryview, Sequence[BatchHeader]]:
    """Return the batches in the compression that the topic asks for, and their headers.

    Raises: ApiError INVALID_RECORD where a batch can't be read.
    """
    wanted = COMPRESSIONS[compression_type]
    if all(header.compression is wanted for header in headers):
        return records, headers
    try:
        batches = [
            build_batch(
                ((each.timestamp, each.key, each.value, each.headers) for each in iterate_records(batch)),
                compression=wanted,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
            )
            for batch, header in zip(iterate_batches(records), headers, strict=True)
        ]
    except WireError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    return b"".join(batches), [read_header(batch) for batch in batches]
