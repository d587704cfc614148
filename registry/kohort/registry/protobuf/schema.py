"""A schema of Protocol Buffers as the registry takes it: a .proto text, or a descriptor in base64."""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from kohort.registry.errors import InvalidSchema
from kohort.registry.protobuf.known import OF_CONFLUENT

BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
KNOWN = re.compile(r"google/(protobuf|type)/[a-z_]+\.proto")
"""Files of Google that nobody has to register: Protocol Buffers and googleapis-common-protos have them."""
MAIN = "kohort-registry-main.proto"


class ProtobufSchema:
    """A schema that was read, with the schemas that it uses."""

    def __init__(self, file: Any, text: str | None) -> None:
        self._file = file
        self._given = text
        self._generated: str | None = None

    @property
    def canonical(self) -> str:
        """The text that is kept: as it was given, or that of a descriptor."""
        return self.normalized if self._given is None else self._given.strip()

    @property
    def normalized(self) -> str:
        """The text of the descriptor: without comments, with whole names."""
        from kohort.registry.protobuf.writing import text_of  # noqa: PLC0415  # Its library may not be here.

        if self._generated is None:
            self._generated = text_of(self._proto())
        return self._generated

    @property
    def serialized(self) -> str:
        """The descriptor in base64, as clients in Python and C++ want it."""
        return b64encode(self._proto().SerializeToString()).decode()

    def problems_reading(self, writer: object) -> Sequence[str]:
        """Return why it cannot read the data of another one; nothing if it can."""
        from kohort.registry.protobuf.compatibility import problems_reading  # noqa: PLC0415

        assert isinstance(writer, ProtobufSchema)
        return problems_reading(self._file, writer._file)

    def json_of(self, indexes: Sequence[int], data: bytes) -> str:
        """Return a message as JSON. `indexes` say which of the file, and of the messages within it.

        Raises: ValueError where the schema has no such message, or the data is none.
        """
        from google.protobuf.json_format import Error, MessageToJson  # noqa: PLC0415
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

        messages = list(self._file.message_types_by_name.values())
        found: Any = None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ValueError(f"the schema has no message {list(indexes)}")
            found, messages = messages[index], list(messages[index].nested_types)
        assert found is not None, "there is one index at least"
        try:
            message = GetMessageClass(found).FromString(data)
            return str(MessageToJson(message, preserving_proto_field_name=True, indent=None))
        except (DecodeError, Error) as error:
            raise ValueError(str(error)) from None

    def _proto(self) -> Any:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415

        proto = FileDescriptorProto()
        self._file.CopyToProto(proto)
        proto.ClearField("name")
        return proto


def parse_protobuf(
    text: str, dependencies: Sequence[tuple[str, str]] = (), *, is_new: bool = True
) -> ProtobufSchema:
    """Return the schema of a text. `dependencies` are names and texts of imports. Raises: InvalidSchema."""
    del is_new  # Old and new ones are held to the same rules.
    proto, is_text = _read(text)
    proto.name = MAIN
    schema = ProtobufSchema(_Files(dict(dependencies)).add(proto), text if is_text else None)
    if not is_text:  # The text that is kept of it has to be one that can be read.
        return parse_protobuf(schema.normalized, dependencies)
    return schema


def _read(text: str) -> tuple[Any, bool]:
    """Return the descriptor of a text, and whether it is a .proto. Raises: InvalidSchema."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    from kohort.registry.protobuf.building import descriptor_of  # noqa: PLC0415

    if BASE64.fullmatch(text) is not None:
        with suppress(ValueError, DecodeError):
            return FileDescriptorProto.FromString(b64decode(text)), False
    return descriptor_of(text), True


class _Files:
    """The files of one schema, added to a pool before what imports them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

        self._pool = DescriptorPool()
        self._texts = texts
        self._added: set[str] = set()

    def add(self, proto: Any) -> Any:
        """Return the descriptor of a file. Raises: InvalidSchema for a name that is missing, or twice."""
        self._added.add(proto.name)
        for name in proto.dependency:
            if name not in self._added:
                self.add(self._imported(name))
        try:
            self._pool.AddSerializedFile(proto.SerializeToString())
            return self._pool.FindFileByName(proto.name)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidSchema(str(error)) from None

    def _imported(self, name: str) -> Any:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415

        text = self._texts.get(name, OF_CONFLUENT.get(name))
        if text is not None:
            proto, _ = _read(text)
        elif KNOWN.fullmatch(name):
            try:
                module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
            except ImportError:
                raise InvalidSchema(f"{name} does not exist") from None
            proto = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        else:
            raise InvalidSchema(f"it imports {name}: give that as a reference")
        proto.name = name
        return proto
