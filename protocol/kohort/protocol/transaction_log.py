"""The records of `__transaction_state`: the transaction state of each transactional id.

A key begins with the int16 0, a value with its version. Source: Kafka's transaction coordinator,
TransactionLog, TransactionLogKey.json, TransactionLogValue.json.
"""

import struct

from kohort.protocol.declaring import message
from kohort.protocol.declaring import struct as inner_struct
from kohort.protocol.errors import WireError
from kohort.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    String,
    field,
)

VALUE_VERSION = 1  # Kafka writes it from transaction.version 1 on: it has tagged fields.

_INT16 = struct.Struct(">h")
_KEY_TYPE = 0


@message(api_key=0, versions="0", flexible="none")
class TransactionLogKey(Message):
    """The key of a transactional id. Kafka: TransactionLogKey.json."""

    transactional_id: String


@inner_struct
class PartitionsSchema(Message):
    """Partitions of one topic that a transaction has written to."""

    topic: String
    partition_ids: Array[Int32]


@message(versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    """The state of a transactional id. Times in milliseconds since 1970. Kafka: TransactionLogValue.json."""

    producer_id: Int64
    previous_producer_id: Int64 = field(default=-1, versions="1+", tag=0, tagged="1+")
    next_producer_id: Int64 = field(default=-1, versions="1+", tag=1, tagged="1+")
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(default=-1, versions="1+", tag=3, tagged="1+")
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: NullableArray[PartitionsSchema]
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(default=0, versions="1+", tag=2, tagged="1+")


def encode_key(key: TransactionLogKey) -> bytes:
    """Return the record key: its type, then its fields."""
    return _INT16.pack(_KEY_TYPE) + key.encode(0)


def decode_key(data: bytes) -> TransactionLogKey | None:
    """Return the key in `data`, or None for an unknown type. Raises: WireError."""
    if len(data) < _INT16.size:
        raise WireError("a record key without its type")
    (record_type,) = _INT16.unpack_from(data)
    return TransactionLogKey.decode(data[2:], 0) if record_type == _KEY_TYPE else None


def encode_value(value: TransactionLogValue) -> bytes:
    """Return the record value: its version, then its fields."""
    return _INT16.pack(VALUE_VERSION) + value.encode(VALUE_VERSION)


def decode_value(data: bytes) -> TransactionLogValue:
    """Return the value in any of its versions. Raises: WireError."""
    if len(data) < _INT16.size:
        raise WireError("a record value without its version")
    (version,) = _INT16.unpack_from(data)
    if version not in TransactionLogValue.declaration().versions:
        raise WireError(f"TransactionLogValue has no version {version}")
    return TransactionLogValue.decode(data[2:], version)
