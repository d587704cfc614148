"""Keys and values in Protocol Buffers as Confluent's serializers write them.

A zero, the id of the schema, the indexes of the message in the schema's file, and the message.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from kohort.client.errors import ConfigurationError
from kohort.client.schema_header import HEADER, id_in_header, with_header
from kohort.client.schema_registry import SchemaReference, SchemaRegistry
from kohort.protocol.errors import WireError
from kohort.protocol.records.varint import encode_varint, read_varint

KIND = "PROTOBUF"
INDEXES_MAX = 64
"""How deep messages may be nested in each other: Protocol Buffers allows no more."""
KNOWN = ("google/protobuf/", "google/type/", "confluent/")
"""Imports that every registry knows: they are no references."""


class Message(Protocol):
    """What `protoc` generates: a class with a descriptor."""

    def SerializeToString(self) -> bytes:
        """Return the message's bytes."""
        ...


M = TypeVar("M", bound=Message)


class Protobuf(Generic[M]):
    """A deserializer of one message: `Consumer("orders", value_deserializer=Protobuf(url, Order))`.

    Records become messages of this class, which Protocol Buffers reads by the numbers of fields: no schema is
    requested. `serializer` makes a producer's serializer. Any thread may use it.
    Raises: ConfigurationError for an invalid URL, or a class that `protoc` did not generate.
    """

    def __init__(self, registry: str | SchemaRegistry, message: type[M]) -> None:
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self.message = message
        self.descriptor: Any = getattr(message, "DESCRIPTOR", None)
        if self.descriptor is None:
            raise ConfigurationError(f"{message!r} is no message of Protocol Buffers: give a generated class")

    def __call__(self, data: bytes) -> M:
        """Return the message. Raises: ValueError and protobuf's DecodeError for invalid bytes."""
        id_in_header(data, "Protocol Buffers")
        _, begin = read_indexes(data, HEADER.size)
        return cast(M, cast(Any, self.message).FromString(data[begin:]))

    def serializer(self, subject: str, *, register: bool = True) -> "ProtobufSerializer[M]":
        """Return a serializer: `Producer(value_serializer=orders.serializer("orders-value"))`.

        The first message registers its file under the subject, and the files that it imports under
        their names; without `register` they have to be there.
        """
        return ProtobufSerializer(self, subject, register=register)


class ProtobufSerializer(Generic[M]):
    """Makes bytes of messages of one class."""

    def __init__(self, messages: Protobuf[M], subject: str, *, register: bool) -> None:
        self._messages = messages
        self._subject = subject
        self._may_register = register
        self._header: bytes | None = None

    def __call__(self, value: M) -> bytes:
        """Return the bytes of a message. Raises: TypeError for another one, KohortError."""
        if not isinstance(value, self._messages.message):
            raise TypeError(f"{type(value).__name__} is no {self._messages.message.__name__}")
        if self._header is None:
            descriptor = self._messages.descriptor
            schema_id, _ = self._registered(self._subject, descriptor.file, {})
            self._header = with_header(schema_id, write_indexes(indexes_of(descriptor)))
        return self._header + value.SerializeToString()

    def _registered(self, subject: str, file: Any, versions: dict[str, int]) -> tuple[int, int]:
        """Return the id and the version of a file; its imports are registered before. Raises: KohortError.

        `versions` are those of the imports so far, by name: several files may import the same one.
        """
        references = []
        for each in file.dependencies:
            if each.name.startswith(KNOWN):
                continue
            if each.name not in versions:
                _, versions[each.name] = self._registered(each.name, each, versions)
            references.append(SchemaReference(each.name, each.name, versions[each.name]))
        text = b64encode(file.serialized_pb).decode()
        registry = self._messages.registry
        if self._may_register:
            registry.register(subject, text, KIND, references)
        return registry.registered(subject, text, KIND, references)


def indexes_of(descriptor: Any) -> list[int]:
    """Return which message of its file it is, and of each message around it."""
    found: list[int] = []
    while descriptor.containing_type is not None:
        found.insert(
            0, [each.name for each in descriptor.containing_type.nested_types].index(descriptor.name)
        )
        descriptor = descriptor.containing_type
    return [list(descriptor.file.message_types_by_name).index(descriptor.name), *found]


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Return which message it is, in numbers of zigzag encoding: [0] is a single zero."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(map(encode_varint, (len(indexes), *indexes)))


def read_indexes(data: bytes, position: int) -> tuple[list[int], int]:
    """Return which message it is, and the position behind that: [0] is written as a single zero.

    Raises: ValueError.
    """
    indexes = []
    try:
        count, position = read_varint(data, position)
        if not 0 <= count <= INDEXES_MAX:
            raise ValueError(f"{count} indexes of messages")
        for _ in range(count):
            index, position = read_varint(data, position)
            indexes.append(index)
    except (IndexError, WireError):
        raise ValueError("the indexes of the message are cut off") from None
    return indexes or [0], position
