"""Checks whether a producer's batch may be appended, with Kafka's error codes.

Only the header and the CRC are checked here, so the usual cost is that of the CRC.
Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch.
"""

from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records.header import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    UP_TO_MAGIC_BYTES,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
)

_MIN_BATCH_LENGTH = 14  # The smallest record of magic 0. Anything shorter is damaged in every format.


def validate_produced(records: Buffer) -> BatchHeader:
    """Return the header of the only batch that a Produce request may have for a partition.

    Like Kafka, this ignores an incomplete batch after the first. It must not be appended.

    Raises: ApiError with CORRUPT_MESSAGE for a wrong length, magic or CRC. ApiError with INVALID_RECORD for
    no whole batch, more than one batch, an older format, a control batch, contradicting counts, or a base
    offset other than 0.
    """
    header = _read_first_header(records)
    batch = memoryview(records)[: header.size_bytes]
    if len(records) != len(batch) and _whole_batch_bytes(memoryview(records)[header.size_bytes :]):
        raise ApiError(ErrorCode.INVALID_RECORD, "a Produce request holds exactly one batch per partition")
    if header.base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset} instead of 0")
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or batch_crc(batch) != header.crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the record batch has a wrong CRC")
    if header.is_control:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records, but the last offset delta is {header.last_offset_delta}",
        )
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"sequence {header.base_sequence} of an idempotent producer")
    if header.attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise ApiError(ErrorCode.INVALID_RECORD, "the compression type is not known")
    return header


def _read_first_header(records: Buffer) -> BatchHeader:
    """Return the first batch's header. Raises: ApiError unless `records` begin with a whole batch v2."""
    if not _whole_batch_bytes(records):
        raise ApiError(
            ErrorCode.INVALID_RECORD, "a Produce request needs one whole batch per partition; it has none"
        )
    if records[16] != MAGIC:
        raise ApiError(ErrorCode.INVALID_RECORD, f"record batches of magic {records[16]} are not supported")
    if len(records) < HEADER_BYTES:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the record batch is shorter than its header")
    return BatchHeader(*HEADER.unpack_from(records))


def _whole_batch_bytes(records: Buffer) -> int:
    """Return the size of the first batch, of any format, in `records`; 0 if it is incomplete.

    Raises: ApiError with CORRUPT_MESSAGE for an invalid length or magic.
    """
    if len(records) < UP_TO_MAGIC_BYTES:
        return 0
    batch_length = int.from_bytes(records[8:12], "big", signed=True)
    if batch_length < _MIN_BATCH_LENGTH:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of length {batch_length}")
    if records[16] > MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of magic {records[16]}")
    size = LOG_OVERHEAD_BYTES + batch_length
    return size if size <= len(records) else 0
