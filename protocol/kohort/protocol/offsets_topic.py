"""The records of `__consumer_offsets`: keys and values of offsets and classic groups.

A key begins with an int16, the record type: 0 and 1 are offsets, 2 is a classic group, higher ones are
consumer, share and streams groups. A value begins with an int16 version. The messages of consumer, share and
streams groups are in other modules, imported with the first such record. Source: Kafka's group coordinator,
CoordinatorRecordSerde and its JSON schemas.
"""

import struct
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec

from kohort.protocol.declaring import message
from kohort.protocol.declaring import struct as inner_struct
from kohort.protocol.errors import WireError
from kohort.protocol.schema import (
    ZERO_UUID,
    Array,
    Bytes,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Uuid,
    field,
)

V = TypeVar("V", bound=Message)

NO_EXPIRE_TIMESTAMP = -1
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
OFFSET_COMMIT_VALUE_VERSION = 3  # Kafka 4 writes it for an offset without a topic id.
OFFSET_COMMIT_VALUE_VERSION_WITH_TOPIC_ID = 4
GROUP_METADATA_VALUE_VERSION = 3


@message(api_key=1, versions="0", flexible="none")
class OffsetCommitKey(Message):
    """The key of a committed offset.

    Kafka: OffsetCommitKey.json (LegacyOffsetCommitKey.json has the same fields under type 0).
    """

    group: String
    topic: String
    partition: Int32


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """A committed offset. Times in milliseconds since 1970. Kafka: OffsetCommitValue.json."""

    offset: Int64
    leader_epoch: Int32 = field(default=-1, versions="3+", ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(default=-1, versions="1", ignorable=True)
    topic_id: Uuid = field(versions="4+", tag=0, tagged="4+", ignorable=True)


@message(api_key=2, versions="0", flexible="none")
class GroupMetadataKey(Message):
    """The key of a classic group's metadata. Kafka: GroupMetadataKey.json."""

    group: String


@inner_struct
class MemberMetadata(Message):
    """A member in the log; timeouts in milliseconds."""

    member_id: String
    group_instance_id: NullableString = field(default=None, versions="3+", ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(default=-1, versions="1+", ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@message(versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    """A classic group in one generation, with its members. Kafka: GroupMetadataValue.json."""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Int64 = field(default=-1, versions="2+", ignorable=True)
    members: Array[MemberMetadata]


class UnknownKey(Message):
    """The key of a record of an unknown type."""

    record_type: Int32


class OffsetCommitRecord(msgspec.Struct, frozen=True, gc=False):
    """A committed offset. A value of None removes it."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupMetadataRecord(msgspec.Struct, frozen=True, gc=False):
    """A classic group in one generation. A value of None removes it."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


class ModernGroupRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a consumer, share or streams group. A value of None removes it."""

    key: Message
    value: Message | None


class RecordToEncode(Protocol):
    """A key with its value, of any record type."""

    @property
    def key(self) -> Message:
        """The record's key."""
        ...

    @property
    def value(self) -> Message | None:
        """The record's value; None is a tombstone."""
        ...


DecodedRecord = OffsetCommitRecord | GroupMetadataRecord | ModernGroupRecord | UnknownKey

TOPIC_IDS_SHARED_MAX = 10_000

_topic_ids: dict[bytes, UUID] = {}
"""Topic ids by their bytes. Offsets share them: otherwise each offset has its own, of 90 bytes."""

_INT16 = struct.Struct(">h")
_INT16_MAX = 32_767
_INT32 = struct.Struct(">i")
_KEY_HEAD = struct.Struct(">hh").pack
_OFFSET_HEAD = struct.Struct(">hqiB").pack
_OFFSET_TAIL = struct.Struct(">q3s16s").pack
_TOPIC_ID_TAG = b"\1\0\x10"  # One tagged field: tag 0, of 16 bytes.
_UVARINT_BYTE_MAX = 127
_TYPES: dict[type[Message], bytes] = {OffsetCommitKey: b"\0\1", GroupMetadataKey: b"\0\2"}

CONSUMER_GROUP_TYPES: frozenset[int] = frozenset((3, 4, 5, 6, 7, 8, 16))
SHARE_GROUP_TYPES: frozenset[int] = frozenset((10, 11, 12, 13, 14, 15))
STREAMS_GROUP_TYPES: frozenset[int] = frozenset((17, 19, 20, 21, 22, 23))
_MODULES: dict[int, str] = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, "kohort.protocol.consumer_group_records"),
    **dict.fromkeys(SHARE_GROUP_TYPES, "kohort.protocol.share_group_records"),
    **dict.fromkeys(STREAMS_GROUP_TYPES, "kohort.protocol.streams_group_records"),
}
"""The module with the messages of a record, by record type."""


def _modern_group_messages(record_type: int) -> tuple[type[Message], type[Message]] | None:
    """Return the classes of key and value of a record type; None for an unknown type."""
    module = _MODULES.get(record_type)
    if module is None:
        return None
    records: Mapping[int, tuple[type[Message], type[Message]]] = import_module(module).RECORDS
    return records[record_type]


def encode_key(key: Message) -> bytes:
    """Return the record key: its type, then its fields. Raises: WireError."""
    if isinstance(key, OffsetCommitKey):  # The hot path: every committed offset.
        group, topic = key.group.encode(), key.topic.encode()
        group_bytes, topic_bytes = len(group), len(topic)
        if group_bytes <= _INT16_MAX >= topic_bytes:
            head = _KEY_HEAD(1, group_bytes)
            return head + group + _INT16.pack(topic_bytes) + topic + _INT32.pack(key.partition)
    record_type = _TYPES.get(type(key)) or _INT16.pack(type(key).declaration().api_key)
    return record_type + key.encode(0)


def encode_record(record: RecordToEncode) -> tuple[bytes, bytes | None]:
    """Return the record's key and value. Raises: WireError."""
    value = record.value
    return encode_key(record.key), None if value is None else encode_value(value)


def decode_key(data: bytes) -> Message:
    """Return the key in `data`, or an `UnknownKey`. Raises: WireError."""
    if len(data) < 2:
        raise WireError("a record key without its type")
    (record_type,) = _INT16.unpack_from(data)
    if record_type in (0, 1):
        return OffsetCommitKey.decode(data[2:], 0)
    if record_type == 2:
        return GroupMetadataKey.decode(data[2:], 0)
    messages = _modern_group_messages(record_type)
    return UnknownKey(record_type=record_type) if messages is None else messages[0].decode(data[2:], 0)


def encode_value(value: Message) -> bytes:
    """Return the record value: the version that Kafka 4 writes, then its fields.

    An offset with its own expiry needs version 1, the only one with `expire_timestamp`.
    """
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
            version = OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
        elif value.topic_id.int:  # Zero means none. Comparing UUIDs would be slower.
            return _encode_offset(value)
        else:
            version = OFFSET_COMMIT_VALUE_VERSION
    else:
        version = GROUP_METADATA_VALUE_VERSION if isinstance(value, GroupMetadataValue) else 0
    return _INT16.pack(version) + value.encode(version)


def _encode_offset(value: OffsetCommitValue) -> bytes:
    """Return the value in the version with a topic id: the hot path of every committed offset."""
    metadata = value.metadata.encode()
    length = len(metadata) + 1
    if length > _UVARINT_BYTE_MAX:
        version = OFFSET_COMMIT_VALUE_VERSION_WITH_TOPIC_ID
        return _INT16.pack(version) + value.encode(version)
    head = _OFFSET_HEAD(OFFSET_COMMIT_VALUE_VERSION_WITH_TOPIC_ID, value.offset, value.leader_epoch, length)
    topic_id = value.topic_id.int.to_bytes(16, "big")  # A call less than `.bytes`.
    return head + metadata + _OFFSET_TAIL(value.commit_timestamp, _TOPIC_ID_TAG, topic_id)


def decode_value(kind: type[V], data: bytes) -> V:
    """Return the value of `kind` in any of its versions. Raises: WireError."""
    if len(data) < 2:
        raise WireError("a record value without its version")
    (version,) = _INT16.unpack_from(data)
    if version not in kind.declaration().versions:
        raise WireError(f"{kind.__name__} has no version {version}")
    return kind.decode(data[2:], version)


def _decode_offset(data: bytes) -> OffsetCommitValue:
    """Return a committed offset. Offsets of a topic share one topic id object. Raises: WireError."""
    value = decode_value(OffsetCommitValue, data)
    topic_id = value.topic_id
    if topic_id is not ZERO_UUID:
        if len(_topic_ids) >= TOPIC_IDS_SHARED_MAX:
            _topic_ids.clear()
        shared = _topic_ids.setdefault(topic_id.bytes, topic_id)
        msgspec.structs.force_setattr(value, "topic_id", shared)  # type: ignore[arg-type]  # A message is a msgspec struct.
    return value


def decode_record(key: bytes, value: bytes | None) -> DecodedRecord:
    """Return the decoded record, or an `UnknownKey`. Raises: WireError."""
    known = decode_key(key)
    if isinstance(known, OffsetCommitKey):
        return OffsetCommitRecord(known, None if value is None else _decode_offset(value))
    if isinstance(known, GroupMetadataKey):
        return GroupMetadataRecord(known, None if value is None else decode_value(GroupMetadataValue, value))
    if isinstance(known, UnknownKey):
        return known
    messages = _modern_group_messages(type(known).declaration().api_key)
    assert messages is not None, known
    return ModernGroupRecord(known, None if value is None else decode_value(messages[1], value))
