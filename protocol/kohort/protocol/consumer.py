"""The consumer protocol: the bytes in JoinGroup's `metadata` and SyncGroup's `assignment`.

They begin with an int16 version. A newer version is read as the newest known one, because later versions only
append fields. Source: ConsumerProtocol.java, ConsumerProtocolSubscription.json,
ConsumerProtocolAssignment.json.
"""

import struct

from kohort.protocol.declaring import message
from kohort.protocol.declaring import struct as inner_struct
from kohort.protocol.errors import WireError
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import Array, Int32, Message, NullableBytes, NullableString, String, field

NEWEST_VERSION = 3


@inner_struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-3", flexible="none", max_items=MAX_PARTITIONS)
class ConsumerProtocolSubscription(Message):
    """A member's subscribed topics and owned partitions. Kafka: ConsumerProtocolSubscription.json."""

    topics: Array[String]
    user_data: NullableBytes = field(default=None)
    owned_partitions: Array[TopicPartitions] = field(versions="1+", ignorable=True)
    generation_id: Int32 = field(default=-1, versions="2+", ignorable=True)
    rack_id: NullableString = field(default=None, versions="3+", ignorable=True)

    def encode_versioned(self, version: int = NEWEST_VERSION) -> bytes:
        """Return the bytes for JoinGroup's `metadata`: the version, then the body."""
        return struct.pack(">h", version) + self.encode(version)

    @classmethod
    def decode_versioned(cls, data: bytes) -> "ConsumerProtocolSubscription":
        """Return a member's subscription. Raises: WireError."""
        version = _version_of(data)
        return cls.decode(data[2:], min(version, NEWEST_VERSION), exact=version <= NEWEST_VERSION)


@message(versions="0-3", flexible="none", max_items=MAX_PARTITIONS)
class ConsumerProtocolAssignment(Message):
    """A member's assigned partitions. Kafka: ConsumerProtocolAssignment.json."""

    assigned_partitions: Array[TopicPartitions]
    user_data: NullableBytes = field(default=None)

    def encode_versioned(self, version: int = NEWEST_VERSION) -> bytes:
        """Return the bytes for SyncGroup's `assignment`: the version, then the body."""
        return struct.pack(">h", version) + self.encode(version)

    @classmethod
    def decode_versioned(cls, data: bytes) -> "ConsumerProtocolAssignment":
        """Return a member's assignment. Raises: WireError."""
        version = _version_of(data)
        return cls.decode(data[2:], min(version, NEWEST_VERSION), exact=version <= NEWEST_VERSION)


def _version_of(data: bytes) -> int:
    if len(data) < 2:
        raise WireError("a consumer protocol message without its version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"a consumer protocol version of {version}")
    return version
