"""Control records, such as the commit and abort markers of transactions.

Key: version int16, type int16. A transaction marker's value: version int16, coordinator epoch int32.
Source: org.apache.kafka.common.record.ControlRecordType, EndTransactionMarker.
"""

import struct
from enum import IntEnum

from kohort.protocol.errors import WireError
from kohort.protocol.records.builder import build_batch
from kohort.protocol.records.header import NO_LEADER_EPOCH
from kohort.protocol.records.reader import Record

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record; `UNKNOWN` for types of later Kafka versions."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KNOWN = frozenset(ControlType)


def read_control_type(key: bytes | None) -> ControlType:
    """Return the type of a control record with `key`. Raises: WireError if the key is cut short."""
    if key is None or len(key) < _KEY.size:
        raise WireError("a control record whose key is shorter than its type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise WireError(f"a control record of version {version}")
    return ControlType(number) if number in _KNOWN else ControlType.UNKNOWN


def read_coordinator_epoch(record: Record) -> int:
    """Return the transaction coordinator's epoch of a commit or abort marker. Raises: WireError."""
    if record.value is None or len(record.value) < _MARKER.size:
        raise WireError("a transaction marker without its coordinator epoch")
    _, epoch = _MARKER.unpack_from(record.value)
    return int(epoch)


def build_transaction_marker(
    control_type: ControlType,
    *,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return a batch with the marker that ends a producer's transaction in a partition."""
    assert control_type in (ControlType.ABORT, ControlType.COMMIT)
    key = _KEY.pack(_VERSION, control_type)
    value = _MARKER.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [(timestamp_ms, key, value, ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
