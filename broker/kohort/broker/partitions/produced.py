"""What a topic's settings demand of produced batches, and the compression that they ask for.

Every record is walked, as Kafka does; only a setting that is about each one makes objects of them.
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
from kohort.protocol.records.checking import Checked, check_records, with_max_timestamp

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
) -> tuple[bytes | memoryview, Sequence[BatchHeader]]:
    """Return the batches as they may be appended: as they came, but for a newest timestamp that is not so.

    Every record is looked at, compressed or not: one that does not decompress, or whose lengths, count or
    offsets contradict each other, would stop each reader, and the cleaner. Raises: the ApiError that Kafka
    answers for such a batch, and for what the topic's settings forbid.
    """
    check_sizes(config, records, headers)
    if any(header.has_log_append_time for header in headers):
        message = "A producer may not set the timestamp type to LogAppendTime"
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, ((0, message),))
    checked = _checked(records, headers)
    if "compact" in config.cleanup_policy:
        _check_keys(checked)
    newest_ms = max(each.max_timestamp for each in checked)
    _check_timestamps(config, records, newest_ms, now_ms)
    if all(each.max_timestamp == header.max_timestamp for each, header in zip(checked, headers, strict=True)):
        return records, headers
    return _with_newest_timestamps(records, headers, checked)


def _checked(records: bytes | memoryview, headers: Sequence[BatchHeader]) -> list[Checked]:
    found: list[Checked] = []
    position = 0
    try:
        for header in headers:
            found.append(check_records(memoryview(records)[position:], header))
            position += header.size_bytes
    except WireError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    return found


def _with_newest_timestamps(
    records: bytes | memoryview, headers: Sequence[BatchHeader], checked: Sequence[Checked]
) -> tuple[bytes, Sequence[BatchHeader]]:
    """Return the batches with the newest timestamps that their records have, as Kafka corrects them."""
    parts: list[bytes] = []
    position = 0
    for header, each in zip(headers, checked, strict=True):
        parts.append(with_max_timestamp(records[position : position + header.size_bytes], each.max_timestamp))
        position += header.size_bytes
    return b"".join(parts), [read_header(part) for part in parts]


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


def _check_keys(checked: Sequence[Checked]) -> None:
    message = "A compacted topic takes no record without a key"
    keyless = tuple((place, message) for each in checked for place in each.keyless)
    if keyless:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, keyless)


def _check_timestamps(config: TopicConfig, records: bytes | memoryview, newest_ms: int, now_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime":
        return
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    latest_ms, earliest_ms = now_ms + after_ms, now_ms - before_ms
    if before_ms == NO_LIMIT_MS and newest_ms <= latest_ms:
        return
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
