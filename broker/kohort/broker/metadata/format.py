"""The metadata file's bytes: JSON lines that a person can read and a checksum that a disk can't fake.

{"kohort_metadata":1,"crc32c":2774623741,"size_bytes":231}     of everything after this line
{"version":7,"next_producer_id":1000,"configs":[...]}
{"name":"orders","topic_id":"...","partitions":[[0,1,0,[1],[1],0]],"configs":{}}     one a topic
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import ConfigResource, ResourceType, TopicState
from kohort.protocol.checksum import crc32c

FORMAT_VERSION = 1
ALONE = PartitionState.__struct_fields__.index("adding")  # As many values has a partition of one broker.


class MetadataFormatError(ValueError):
    """The bytes are not a whole metadata file; the message says in what way."""


class _Seal(msgspec.Struct, forbid_unknown_fields=True):
    kohort_metadata: int
    crc32c: int
    size_bytes: int


class _Configs(msgspec.Struct, forbid_unknown_fields=True):
    type: ResourceType
    name: str
    values: dict[str, str]


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    next_producer_id: int
    configs: list[_Configs]


class _TopicLine(msgspec.Struct):
    """A topic as it is written: a `TopicState` whose partitions end with the last value that they need."""

    name: str
    topic_id: UUID
    partitions: list[tuple[object, ...]]
    configs: Mapping[str, str]


class Stored(msgspec.Struct, frozen=True):
    """The content of the file."""

    version: int = 0
    next_producer_id: int = 0
    configs: Mapping[ConfigResource, Mapping[str, str]] = {}
    topics: tuple[TopicState, ...] = ()


class Encoder:
    """Encodes the file repeatedly; the lines of unchanged topics are kept."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[TopicState, bytes]] = {}

    def encode(self, stored: Stored) -> bytes:
        """Return the whole file."""
        configs = [_Configs(type_, name, dict(each)) for (type_, name), each in stored.configs.items()]
        head = msgspec.json.encode(_Head(stored.version, stored.next_producer_id, configs))
        body = b"\n".join([head, *self._topic_lines(stored.topics), b""])
        seal = msgspec.json.encode(_Seal(FORMAT_VERSION, crc32c(body), len(body)))
        return seal + b"\n" + body

    def _topic_lines(self, topics: Iterable[TopicState]) -> list[bytes]:
        kept, self._lines = self._lines, {}
        for topic in topics:
            line = kept.get(topic.name)
            if line is None or line[0] is not topic:
                line = topic, msgspec.json.encode(_topic_line(topic))
            self._lines[topic.name] = line
        return [line for _, line in self._lines.values()]


def _topic_line(topic: TopicState) -> _TopicLine:
    partitions = [_values(partition) for partition in topic.partitions]
    return _TopicLine(topic.name, topic.topic_id, partitions, topic.configs)


def _values(partition: PartitionState) -> tuple[object, ...]:
    """Return the values, those that a broker alone never sets only where one of them is set."""
    values: tuple[object, ...] = msgspec.structs.astuple(partition)
    return values if any(values[ALONE:]) else values[:ALONE]


def decode(data: bytes) -> Stored:
    """Return the content of the file. Raises: MetadataFormatError if it is not complete."""
    first, separator, body = data.partition(b"\n")
    if not separator:
        raise MetadataFormatError("its first line is not complete")
    try:
        seal = msgspec.json.decode(first, type=_Seal)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetadataFormatError(f"its first line can't be read ({error})") from error
    if seal.kohort_metadata != FORMAT_VERSION:
        raise MetadataFormatError(f"its format is {seal.kohort_metadata}, this kohort reads {FORMAT_VERSION}")
    if len(body) != seal.size_bytes:
        raise MetadataFormatError(f"{len(body)} bytes follow the first line, not {seal.size_bytes}")
    if crc32c(body) != seal.crc32c:
        raise MetadataFormatError("its checksum does not match")
    try:
        return _decode_body(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetadataFormatError(f"a line can't be read ({error})") from error


def _decode_body(body: bytes) -> Stored:
    head_line, *topic_lines = body.removesuffix(b"\n").split(b"\n")
    head = msgspec.json.decode(head_line, type=_Head)
    topic_decoder = msgspec.json.Decoder(TopicState)
    return Stored(
        version=head.version,
        next_producer_id=head.next_producer_id,
        configs={ConfigResource(each.type, each.name): each.values for each in head.configs},
        topics=tuple(map(topic_decoder.decode, topic_lines)),
    )
