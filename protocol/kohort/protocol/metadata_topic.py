"""The records of `__cluster_metadata`, the topic of Apache Kafka's controllers.

A record's value: frame version (1), api key and version, each an unsigned varint, then the message. Records
of topics, settings, quotas, ACLs, producer ids and transactions are decoded. Of other records only the api
key is read.
Source: org.apache.kafka.metadata.MetadataRecordSerde and the JSON schemas of Kafka's metadata module.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.errors import WireError
from kohort.protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)
from kohort.protocol.varint import read_uvarint_rest

FRAME_VERSION = 1
NO_CHANGE = -2
"""The `leader` of a `PartitionChangeRecord` that does not change it."""


@message(api_key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    """A topic has been created. Kafka: TopicRecord.json."""

    name: String
    topic_id: Uuid


@message(api_key=3, versions="0-2", flexible="0+")
class PartitionRecord(Message):
    """The whole state of a partition. Kafka: PartitionRecord.json."""

    partition_id: Int32
    topic_id: Uuid
    replicas: Array[Int32]
    isr: Array[Int32]
    removing_replicas: Array[Int32]
    adding_replicas: Array[Int32]
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    directories: Array[Uuid] = field(versions="1+", ignorable=True)


@message(api_key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """A new value of a setting; None resets it to its default. Kafka: ConfigRecord.json."""

    resource_type: Int8
    resource_name: String
    name: String
    value: NullableString


@message(api_key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(Message):
    """Changes of a partition. None and `NO_CHANGE` mean that a field is unchanged.

    Kafka: PartitionChangeRecord.json.
    """

    partition_id: Int32
    topic_id: Uuid
    isr: NullableArray[Int32] = field(default=None, tag=0, tagged="0+")
    leader: Int32 = field(default=NO_CHANGE, tag=1, tagged="0+")
    replicas: NullableArray[Int32] = field(default=None, tag=2, tagged="0+")


@message(api_key=9, versions="0", flexible="0+")
class RemoveTopicRecord(Message):
    """A topic has been deleted. Kafka: RemoveTopicRecord.json."""

    topic_id: Uuid


@struct
class ClientQuotaRecordEntity(Message):
    """One of `entity` in `ClientQuotaRecord`. The default entity has no name."""

    entity_type: String
    entity_name: NullableString


@message(api_key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    """A quota has been set or removed. Kafka: ClientQuotaRecord.json."""

    entity: Array[ClientQuotaRecordEntity]
    key: String
    value: Float64
    remove: Bool


@message(api_key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    """An ACL has been created. Kafka: AccessControlEntryRecord.json."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(Message):
    """An ACL has been deleted. Kafka: RemoveAccessControlEntryRecord.json."""

    id: Uuid


@message(api_key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    """Producer ids below `next_producer_id` have been allocated. Kafka: ProducerIdsRecord.json."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


@message(api_key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """The following records apply together or not at all. Kafka: BeginTransactionRecord.json."""


@message(api_key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """The records since the transaction began apply. Kafka: EndTransactionRecord.json."""


@message(api_key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """The records since the transaction began do not apply. Kafka: AbortTransactionRecord.json."""


class OtherRecord(Message):
    """A record of which only the api key is read."""

    record_type: Int32


_KINDS: tuple[type[Message], ...] = (
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    ClientQuotaRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    ProducerIdsRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
)
_KINDS_BY_KEY = {kind.declaration().api_key: kind for kind in _KINDS}


def decode_metadata_record(value: bytes) -> Message:
    """Return the record in a value, or an `OtherRecord` for other types.

    Raises: WireError for a damaged record or an unknown version.
    """
    frame_version, position = _read_unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        raise WireError(f"a metadata record in a frame of version {frame_version}")
    api_key, position = _read_unsigned_varint(value, position)
    version, position = _read_unsigned_varint(value, position)
    kind = _KINDS_BY_KEY.get(api_key)
    if kind is None:
        return OtherRecord(record_type=api_key)
    if version not in kind.declaration().versions:
        raise WireError(f"{kind.__name__} has an unknown version {version}")
    return kind.decode(value[position:], version)


def encode_metadata_record(record: Message) -> bytes:
    """Return the value of a record, in its newest version."""
    declaration = type(record).declaration()
    version = declaration.versions.highest
    return bytes((FRAME_VERSION, declaration.api_key, version)) + record.encode(version)


def _read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number and the position behind it. Raises: WireError."""
    try:
        first = data[position]
        if first < 128:
            return first, position + 1
        return read_uvarint_rest(data, position + 1, first)
    except IndexError:
        raise WireError("a metadata record is cut short in its first bytes") from None
