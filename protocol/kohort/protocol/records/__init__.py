"""Record batches v2: reading, iterating, building and validating them."""

from kohort.protocol.records.builder import (
    RecordFields,
    RecordHeaders,
    RecordWriter,
    build_batch,
    encode_records,
    max_record_bytes,
    seal_batch,
)
from kohort.protocol.records.compression import MAX_DECOMPRESSED_BYTES, compress, decompress
from kohort.protocol.records.control import (
    ControlType,
    build_transaction_marker,
    read_control_type,
    read_coordinator_epoch,
)
from kohort.protocol.records.decoding import Headers
from kohort.protocol.records.header import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
    read_header,
)
from kohort.protocol.records.reader import Record, iterate_batches, iterate_records, verify_crc
from kohort.protocol.records.rewriting import (
    KeptRecord,
    empty_batch,
    plain_payload,
    recompress,
    rewrite_batch,
    scan_records,
)
from kohort.protocol.records.validation import validate_produced

__all__ = [
    "HEADER_BYTES",
    "MAX_DECOMPRESSED_BYTES",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Buffer",
    "Compression",
    "ControlType",
    "Headers",
    "KeptRecord",
    "Record",
    "RecordFields",
    "RecordHeaders",
    "RecordWriter",
    "batch_crc",
    "build_batch",
    "build_transaction_marker",
    "compress",
    "decompress",
    "empty_batch",
    "encode_records",
    "iterate_batches",
    "iterate_records",
    "max_record_bytes",
    "plain_payload",
    "read_control_type",
    "read_coordinator_epoch",
    "read_header",
    "recompress",
    "rewrite_batch",
    "scan_records",
    "seal_batch",
    "validate_produced",
    "verify_crc",
]
