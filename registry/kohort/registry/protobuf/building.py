"""Makes a file descriptor of a .proto text's syntax tree; protobuf's own library resolves the names in it."""

import re
from collections.abc import Iterable
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from kohort.registry.errors import InvalidSchema

TEXT_LENGTH_MAX = 200_000
"""The parser takes a second for so much."""
EXTENSION_END = 536_870_912
ENUM_END = 2_147_483_647
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "bytes",
        "uint32",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    )
}
LABELS = {
    None: FieldDescriptorProto.LABEL_OPTIONAL,
    ast.FieldCardinality.OPTIONAL: FieldDescriptorProto.LABEL_OPTIONAL,
    ast.FieldCardinality.REQUIRED: FieldDescriptorProto.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: FieldDescriptorProto.LABEL_REPEATED,
}


def descriptor_of(text: str) -> FileDescriptorProto:
    """Return the descriptor of a .proto text, whose names are as the text has them. Raises: InvalidSchema."""
    if len(text) > TEXT_LENGTH_MAX:
        raise InvalidSchema(f"a .proto text may have {TEXT_LENGTH_MAX} characters")
    try:
        return _file(Parser(setup_lexer=_be_strict, setup_parser=_be_strict).parse(text))
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    except InvalidSchema:
        raise
    except Exception as error:  # noqa: BLE001  # The parser raises its own, and what its parts raise.
        raise InvalidSchema(f"it is no .proto: {error}") from None


class _Strict(ErrorListener):  # type: ignore[misc]  # The library has no types.
    """Refuses what the parser would guess and go on with."""

    def syntaxError(self, *told: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Raise for a text that is no .proto."""
        _, _, line, column, words, _ = told
        raise InvalidSchema(f"line {line}:{column}: {words[:200]}")


def _be_strict(parser: Any) -> None:
    parser.removeErrorListeners()
    parser.addErrorListener(_Strict())


def _file(tree: ast.File) -> FileDescriptorProto:
    if tree.edition is not None:
        raise InvalidSchema("editions are not supported: give proto2 or proto3")
    syntax = tree.syntax or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise InvalidSchema(f"the syntax {syntax} is unknown")
    file = FileDescriptorProto(syntax=syntax)
    for each in tree.file_elements:
        if isinstance(each, ast.Package):
            file.package = each.name
        elif isinstance(each, ast.Import):
            if each.public:
                file.public_dependency.append(len(file.dependency))
            file.dependency.append(each.name)
        elif isinstance(each, ast.Message):
            _message(file.message_type.add(), each, syntax)
        elif isinstance(each, ast.Enum):
            _enum(file.enum_type.add(), each)
        elif isinstance(each, ast.Service):
            _service(file.service.add(), each)
        elif isinstance(each, ast.Extension):
            for field in _fields(each.elements):
                _field(file.extension.add(extendee=each.typeName), field, syntax)
        elif isinstance(each, ast.Option):
            _set_option(file.options, each)
    return file


def _message(message: DescriptorProto, tree: ast.Message, syntax: str) -> None:
    message.name = tree.name
    optional: list[FieldDescriptorProto] = []
    for each in tree.elements:
        if isinstance(each, ast.Field):
            field = message.field.add()
            _field(field, each, syntax)
            if syntax == "proto3" and each.cardinality is ast.FieldCardinality.OPTIONAL:
                optional.append(field)
        elif isinstance(each, ast.MapField):
            _map(message, each, syntax)
        elif isinstance(each, ast.OneOf):
            index = len(message.oneof_decl)
            message.oneof_decl.add(name=each.name)
            for one in _fields(each.elements):
                field = message.field.add(oneof_index=index)
                _field(field, one, syntax)
        elif isinstance(each, ast.Message):
            _message(message.nested_type.add(), each, syntax)
        elif isinstance(each, ast.Enum):
            _enum(message.enum_type.add(), each)
        elif isinstance(each, ast.Reserved):
            for begin, end in _ranges(each.ranges, EXTENSION_END - 1):
                message.reserved_range.add(start=begin, end=end + 1)
            message.reserved_name.extend(_plain(name) for name in each.names)
        elif isinstance(each, ast.ExtensionRange):
            for begin, end in _ranges(each.ranges, EXTENSION_END - 1):
                message.extension_range.add(start=begin, end=end + 1)
        elif isinstance(each, ast.Extension):
            for one in _fields(each.elements):
                _field(message.extension.add(extendee=each.typeName), one, syntax)
        elif isinstance(each, ast.Group):
            raise InvalidSchema(f"group {each.name} is not supported: give it a message type")
        elif isinstance(each, ast.Option):
            _set_option(message.options, each)
    for field in optional:  # Behind the others, as protoc does.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _fields(elements: Iterable[Any]) -> Iterable[ast.Field]:
    for each in elements:
        if isinstance(each, ast.Group):
            raise InvalidSchema(f"group {each.name} is not supported: give it a message type")
        if isinstance(each, ast.Field):
            yield each


def _field(field: FieldDescriptorProto, tree: ast.Field, syntax: str) -> None:
    field.name, field.number, field.label = tree.name, tree.number, LABELS[tree.cardinality]
    _set_type(field, tree.type)
    for each in tree.options:
        if each.name == "json_name":
            field.json_name = str(each.value)
        elif each.name == "default":
            is_text = field.type == FieldDescriptorProto.TYPE_STRING
            field.default_value = _unescaped(str(each.value)) if is_text else _text(each.value)
        else:
            _set_option(field.options, each)
    if syntax == "proto3" and tree.cardinality is ast.FieldCardinality.REQUIRED:
        raise InvalidSchema(f"field {tree.name} is required, which proto3 does not have")


def _map(message: DescriptorProto, tree: ast.MapField, syntax: str) -> None:
    words = tree.name.split("_")
    name = f"{''.join(each[:1].upper() + each[1:] for each in words)}Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    _field(entry.field.add(), ast.Field("key", 1, tree.key_type), syntax)
    _field(entry.field.add(), ast.Field("value", 2, tree.value_type), syntax)
    repeated = ast.FieldCardinality.REPEATED
    _field(message.field.add(), ast.Field(tree.name, tree.number, name, repeated, tree.options), syntax)


def _set_type(field: FieldDescriptorProto, name: str) -> None:
    if name in SCALARS:
        field.type = SCALARS[name]
    else:
        field.type_name = name


def _enum(enum: EnumDescriptorProto, tree: ast.Enum) -> None:
    enum.name = tree.name
    for each in tree.elements:
        if isinstance(each, ast.EnumValue):
            value = enum.value.add(name=each.name, number=each.number)
            for option in each.options:
                _set_option(value.options, option)
        elif isinstance(each, ast.EnumReserved):
            for begin, end in _ranges(each.ranges, ENUM_END):
                enum.reserved_range.add(start=begin, end=end)
            enum.reserved_name.extend(_plain(name) for name in each.names)
        elif isinstance(each, ast.Option):
            _set_option(enum.options, each)


def _service(service: ServiceDescriptorProto, tree: ast.Service) -> None:
    service.name = tree.name
    for each in tree.elements:
        if isinstance(each, ast.Method):
            service.method.add(
                name=each.name,
                input_type=each.input_type.type,
                output_type=each.output_type.type,
                client_streaming=each.input_type.stream or None,
                server_streaming=each.output_type.stream or None,
            )
        elif isinstance(each, ast.Option):
            _set_option(service.options, each)


def _set_option(options: Any, option: ast.Option) -> None:
    """Set an option that protobuf itself knows. Others stand in the text alone."""
    known = options.DESCRIPTOR.fields_by_name.get(option.name)
    if known is None or known.message_type is not None:
        return
    if known.enum_type is not None:
        value = known.enum_type.values_by_name.get(_text(option.value))
        if value is None:
            raise InvalidSchema(f"option {option.name} has no value {_text(option.value)}")
        setattr(options, option.name, value.number)
    else:
        setattr(options, option.name, option.value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "name", value))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)


def _plain(name: str) -> str:
    return name.strip("\"'")


def _ranges(texts: Iterable[str], last: int) -> Iterable[tuple[int, int]]:
    for each in texts:
        begin, _, end = each.partition(" to ")
        yield int(begin), int(begin) if not end else last if end.strip() == "max" else int(end)
