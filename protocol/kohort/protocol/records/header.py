"""The header of a record batch v2: 61 bytes.

Layout (big-endian): base_offset int64, batch_length int32, partition_leader_epoch int32, magic int8,
crc uint32, attributes int16, last_offset_delta int32, base_timestamp int64, max_timestamp int64,
producer_id int64, producer_epoch int16, base_sequence int32, record_count int32, then the records.
The CRC-32C covers everything from the attributes on, so base offset and leader epoch may be patched.
Source: KIP-98; org.apache.kafka.common.record.DefaultRecordBatch.
"""

import struct
from enum import IntEnum

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import WireError

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
UP_TO_CRC = struct.Struct(">qiibI")
CRC_COVERS = struct.Struct(">hiqqqhii")
"""The fields from the attributes on, which follow `UP_TO_CRC`."""
HEADER_BYTES = HEADER.size
LOG_OVERHEAD_BYTES = 12  # base_offset and batch_length, which batch_length does not count.
UP_TO_MAGIC_BYTES = 17
CRC_POSITION = 17
CRC_COVERS_FROM = 21
MAGIC = 2

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40


class Compression(IntEnum):
    """How a batch's records are compressed: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_COMPRESSIONS = tuple(Compression)


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch header in wire order. Timestamps are in milliseconds."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, header and records."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record. Compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The base offset of the next batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The idempotent producer's sequence of the last record. It wraps from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raises: WireError for an unknown codec."""
        number = self.attributes & COMPRESSION_MASK
        if number >= len(_COMPRESSIONS):
            raise WireError(f"compression type {number} is not known")
        return _COMPRESSIONS[number]

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are for the broker (commit and abort markers), not for consumers."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether every record has the timestamp `max_timestamp`, which the broker has set."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which the cleaner may remove tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`. This does not check that the batch's records are complete.

    Raises: WireError if it is cut short, not of version 2, or has a length less than a header's.
    """
    try:
        header = BatchHeader(*HEADER.unpack_from(buffer, position))
    except struct.error:
        raise WireError(f"{len(buffer) - position} bytes are no batch header of {HEADER_BYTES}") from None
    if header.magic != MAGIC:
        raise WireError(f"record batches of magic {header.magic} are not supported, only {MAGIC}")
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise WireError(f"a batch of length {header.batch_length} is shorter than its header")
    return header


def batch_crc(batch: Buffer) -> int:
    """Return the CRC-32C of exactly one `batch`."""
    return crc32c(memoryview(batch)[CRC_COVERS_FROM:])
