"""The records of `__consumer_offsets`: keys and values of offsets and classic groups.

A key begins with an int16 that says what the record is (0 and 1: an offset, 2: a classic group; what
is higher belongs to newer kinds of groups), a value with an int16 version. Messages of the newer kinds are
in modules of their own, imported with the first such record. Source: Kafka's group coordinator,
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
OFFSET_COMMIT_VALUE_VERSION = 3  # What Kafka 4 writes for an offset without a topic id.
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
    """A committed offset. Times in milliseconds since 1970.

    Kafka: OffsetCommitValue.json.
    """

    offset: Int64
    leader_epoch: Int32 = field(default=-1, versions="3+", ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(default=-1, versions="1", ignorable=True)
    topic_id: Uuid = field(versions="4+", tag=0, tagged="4+", ignorable=True)


@message(api_key=2, versions="0", flexible="none")
class GroupMetadataKey(Message):
    """The key of a classic group's metadata.

    Kafka: GroupMetadataKey.json.
    """

    group: String


@inner_struct
class MemberMetadata(Message):
    """A member as the log keeps it; timeouts in milliseconds."""

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
    """A classic group in one generation, with its members.

    Kafka: GroupMetadataValue.json.
    """

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Int64 = field(default=-1, versions="2+", ignorable=True)
    members: Array[MemberMetadata]


class UnknownKey(Message):
    """The key of a record that nobody here understands, by its type."""

    record_type: Int32


class OffsetCommitRecord(msgspec.Struct, frozen=True, gc=False):
    """A committed offset, or with a value of None its removal."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupMetadataRecord(msgspec.Struct, frozen=True, gc=False):
    """A classic group in one generation, or with a value of None its removal."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


class NewerRecord(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a group of a newer kind, or with a value of None its removal."""

    key: Message
    value: Message | None


class RecordToEncode(Protocol):
    """A key with its value, of any kind."""

    @property
    def key(self) -> Message:
        """What the record is about."""
        ...

    @property
    def value(self) -> Message | None:
        """What it says of that; None removes it."""
        ...


DecodedRecord = OffsetCommitRecord | GroupMetadataRecord | NewerRecord | UnknownKey

TOPIC_IDS_SHARED_MAX = 10_000

_topic_ids: dict[bytes, UUID] = {}
"""Topic ids by their bytes: a million offsets would have a million of them, 90 bytes each."""

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
_HOMES: dict[int, str] = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, "kohort.protocol.consumer_group_records"),
    **dict.fromkeys(SHARE_GROUP_TYPES, "kohort.protocol.share_group_records"),
    **dict.fromkeys(STREAMS_GROUP_TYPES, "kohort.protocol.streams_group_records"),
}
"""Which module has the messages of a record of a newer kind, by its type."""


def _newer(record_type: int) -> tuple[type[Message], type[Message]] | None:
    """Return key and value of a newer kind of record; None for one that nobody here understands."""
    home = _HOMES.get(record_type)
    if home is None:
        return None
    records: Mapping[int, tuple[type[Message], type[Message]]] = import_module(home).RECORDS
    return records[record_type]


def encode_key(key: Message) -> bytes:
    """Return the record key: its type, then its fields. Raises: WireError."""
    if isinstance(key, OffsetCommitKey):  # Each commit of each partition comes this way: fewer steps.
        group, topic = key.group.encode(), key.topic.encode()
        if max(len(group), len(topic)) <= _INT16_MAX:
            head, middle = _KEY_HEAD(1, len(group)), _INT16.pack(len(topic))
            return head + group + middle + topic + _INT32.pack(key.partition)
    record_type = _TYPES.get(type(key)) or _INT16.pack(type(key).declaration().api_key)
    return record_type + key.encode(0)


def encode_record(record: RecordToEncode) -> tuple[bytes, bytes | None]:
    """Return the record's key and value. Raises: WireError."""
    value = record.value
    return encode_key(record.key), None if value is None else encode_value(value)


def decode_key(data: bytes) -> Message:
    """Return the key that `data` holds; one of another kind comes back as its type. Raises: WireError."""
    if len(data) < 2:
        raise WireError("a record key without its type")
    (record_type,) = _INT16.unpack_from(data)
    if record_type in (0, 1):
        return OffsetCommitKey.decode(data[2:], 0)
    if record_type == 2:
        return GroupMetadataKey.decode(data[2:], 0)
    newer = _newer(record_type)
    return UnknownKey(record_type=record_type) if newer is None else newer[0].decode(data[2:], 0)


def encode_value(value: Message) -> bytes:
    """Return the record value: the version that Kafka 4 writes, then its fields.

    An offset with a time to live of its own goes into the one version that has a place for it.
    """
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
            version = OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
        elif value.topic_id.int:  # Zero stands for none; to compare ids takes two calls.
            return _encode_offset(value)
        else:
            version = OFFSET_COMMIT_VALUE_VERSION
    else:
        version = GROUP_METADATA_VALUE_VERSION if isinstance(value, GroupMetadataValue) else 0
    return _INT16.pack(version) + value.encode(version)


def _encode_offset(value: OffsetCommitValue) -> bytes:
    """Return what `encode` of the version with a topic id does, for short metadata in fewer steps.

    Each commit of each partition comes this way.
    """
    metadata = value.metadata.encode()
    length = len(metadata) + 1
    if length > _UVARINT_BYTE_MAX:
        version = OFFSET_COMMIT_VALUE_VERSION_WITH_TOPIC_ID
        return _INT16.pack(version) + value.encode(version)
    head = _OFFSET_HEAD(OFFSET_COMMIT_VALUE_VERSION_WITH_TOPIC_ID, value.offset, value.leader_epoch, length)
    return head + metadata + _OFFSET_TAIL(value.commit_timestamp, _TOPIC_ID_TAG, value.topic_id.bytes)


def decode_value(kind: type[V], data: bytes) -> V:
    """Return the value of `kind` in whichever version it was written. Raises: WireError."""
    if len(data) < 2:
        raise WireError("a record value without its version")
    (version,) = _INT16.unpack_from(data)
    if version not in kind.declaration().versions:
        raise WireError(f"{kind.__name__} has no version {version}")
    return kind.decode(data[2:], version)


def _decode_offset(data: bytes) -> OffsetCommitValue:
    """Return a committed offset, which shares the object of its topic id with others. Raises: WireError."""
    value = decode_value(OffsetCommitValue, data)
    topic_id = value.topic_id
    if topic_id is not ZERO_UUID:
        if len(_topic_ids) >= TOPIC_IDS_SHARED_MAX:
            _topic_ids.clear()
        shared = _topic_ids.setdefault(topic_id.bytes, topic_id)
        msgspec.structs.force_setattr(value, "topic_id", shared)  # type: ignore[arg-type]  # as messages are
    return value


def decode_record(key: bytes, value: bytes | None) -> DecodedRecord:
    """Return what a record says; one of another kind comes back as its type. Raises: WireError."""
    known = decode_key(key)
    if isinstance(known, OffsetCommitKey):
        return OffsetCommitRecord(known, None if value is None else _decode_offset(value))
    if isinstance(known, GroupMetadataKey):
        return GroupMetadataRecord(known, None if value is None else decode_value(GroupMetadataValue, value))
    if isinstance(known, UnknownKey):
        return known
    newer = _newer(type(known).declaration().api_key)
    assert newer is not None, known
    return NewerRecord(known, None if value is None else decode_value(newer[1], value))
