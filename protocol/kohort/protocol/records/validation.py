"""Whether what a producer sent may be appended, with the code that Kafka answers otherwise.

The batch is opaque here but for its header and its CRC, so the common path costs what the CRC costs.
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

_MIN_BATCH_LENGTH = 14  # The smallest record of magic 0: less than that is damage in any format.


def validate_produced(records: Buffer) -> BatchHeader:
    """Return the header of the one batch that a Produce request may hold per partition.

    What is cut short behind it is no batch, and is not to be appended, as Kafka has it.

    Raises: ApiError with CORRUPT_MESSAGE for damage (a wrong length, magic or CRC), INVALID_RECORD for
    what Kafka does not take from a client: no whole batch, more than one, an older format, a control
    batch, counts that contradict each other, a base offset other than 0.
    """
    header = _read_first_header(records)
    batch = memoryview(records)[: header.size_bytes]
    if len(records) != len(batch) and _whole_batch_bytes(memoryview(records)[header.size_bytes :]):
        raise ApiError(ErrorCode.INVALID_RECORD, "a Produce request holds exactly one batch per partition")
    if header.base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset} instead of 0")
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or batch_crc(batch) != header.crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the record batch does not have the CRC that it says")
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
    """Return the first batch's header. Raises: ApiError unless a whole batch of version 2 is there."""
    if not _whole_batch_bytes(records):
        raise ApiError(
            ErrorCode.INVALID_RECORD, "a Produce request holds one whole batch per partition, not none"
        )
    if records[16] != MAGIC:
        raise ApiError(ErrorCode.INVALID_RECORD, f"record batches of magic {records[16]} are no longer taken")
    if len(records) < HEADER_BYTES:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the record batch is shorter than its header")
    return BatchHeader(*HEADER.unpack_from(records))


def _whole_batch_bytes(records: Buffer) -> int:
    """Return the size of the batch, of any format, that `records` begin with; 0 when it is not all there.

    Raises: ApiError with CORRUPT_MESSAGE for a length or magic that no format has.
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
