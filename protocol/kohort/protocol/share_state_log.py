"""The records of `__share_group_state`: the delivery states of records in share groups (KIP-932).

A snapshot has the whole state of a share partition, an update the changes since. A key begins with an int16,
0 for a snapshot and 1 for an update. A value begins with its version. Source: Kafka's share coordinator,
ShareCoordinatorRecordSerde and its JSON schemas.
"""

import struct

from kohort.protocol.declaring import message
from kohort.protocol.declaring import struct as inner_struct
from kohort.protocol.errors import WireError
from kohort.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Uuid, field

_INT16 = struct.Struct(">h")
VALUE_VERSION = 0


@message(api_key=0, versions="0", flexible="none")
class ShareSnapshotKey(Message):
    """The key of a share partition's snapshot. Kafka: ShareSnapshotKey.json."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(api_key=1, versions="0", flexible="none")
class ShareUpdateKey(Message):
    """The key of a share partition's update. Kafka: ShareUpdateKey.json."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@inner_struct
class ShareStateBatch(Message):
    """A range of offsets, both ends included, with the same state and delivery count."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(versions="0", flexible="0+")
class ShareSnapshotValue(Message):
    """The whole state of a share partition. Times in milliseconds since 1970.

    Kafka: ShareSnapshotValue.json.
    """

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, tag=0, tagged="0+")
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: Array[ShareStateBatch]


@message(versions="0", flexible="0+")
class ShareUpdateValue(Message):
    """The changes of a share partition since its last snapshot. Kafka: ShareUpdateValue.json."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, tag=0, tagged="0+")
    state_batches: Array[ShareStateBatch]


RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
"""The classes of key and value by record type."""

ShareStateKey = ShareSnapshotKey | ShareUpdateKey


def encode_key(key: ShareStateKey) -> bytes:
    """Return the record key: its type, then its fields."""
    return _INT16.pack(type(key).declaration().api_key) + key.encode(0)


def decode_key(data: bytes) -> ShareStateKey | None:
    """Return the key in `data`, or None for an unknown type. Raises: WireError."""
    if len(data) < _INT16.size:
        raise WireError("a record key without its type")
    (record_type,) = _INT16.unpack_from(data)
    if record_type == 0:
        return ShareSnapshotKey.decode(data[2:], 0)
    return ShareUpdateKey.decode(data[2:], 0) if record_type == 1 else None


def encode_value(value: ShareSnapshotValue | ShareUpdateValue) -> bytes:
    """Return the record value: its version, then its fields."""
    return _INT16.pack(VALUE_VERSION) + value.encode(VALUE_VERSION)


def decode_value(key: ShareStateKey, data: bytes) -> ShareSnapshotValue | ShareUpdateValue:
    """Return the value of a record with this key. Raises: WireError."""
    if len(data) < _INT16.size:
        raise WireError("a record value without its version")
    (version,) = _INT16.unpack_from(data)
    if version != VALUE_VERSION:
        raise WireError(f"a share partition's state has no version {version}")
    if isinstance(key, ShareSnapshotKey):
        return ShareSnapshotValue.decode(data[2:], version)
    return ShareUpdateValue.decode(data[2:], version)
