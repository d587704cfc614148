"""Writes a file descriptor as a .proto text, without comments and options that protobuf does not know."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from kohort.registry.protobuf.building import ENUM_END, EXTENSION_END, SCALARS

_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_LABELS = {FieldDescriptorProto.LABEL_REPEATED: "repeated ", FieldDescriptorProto.LABEL_REQUIRED: "required "}


def text_of(file: FileDescriptorProto) -> str:
    """Return the text of a descriptor whose names are resolved."""
    syntax = file.syntax or "proto2"
    lines = [f'syntax = "{syntax}";']
    lines += [f"package {file.package};"] if file.package else []
    for index, each in enumerate(file.dependency):
        lines.append(f'import {"public " if index in file.public_dependency else ""}"{each}";')
    lines += [f"option {each};" for each in _options(file.options)]
    for enum in file.enum_type:
        lines += ["", *_enum(enum)]
    for message in file.message_type:
        lines += ["", *_message(message, syntax)]
    lines += _extensions(file.extension, syntax)
    for service in file.service:
        lines += ["", *_service(service)]
    return "\n".join(lines)


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    inner: list[str] = [f"option {each};" for each in _options(message.options)]
    inner += _reserved(message.reserved_range, message.reserved_name, EXTENSION_END, past_end=1)
    inner += _fields(message, syntax)
    for each in message.extension_range:
        inner.append(f"extensions {_range(each.start, each.end - 1, EXTENSION_END - 1)};")
    inner += _extensions(message.extension, syntax)
    for enum in message.enum_type:
        inner += _enum(enum)
    yield from (f"  {each}" for each in inner)
    yield "}"


def _fields(message: DescriptorProto, syntax: str) -> Iterator[str]:
    """Yield the fields and the messages within, in an order that keeps the numbers of messages.

    Serialized data name a message by its place among its neighbours, and the entries of maps are among these.
    """
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    waiting = list(message.nested_type)
    members: dict[int, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            members.setdefault(field.oneof_index, []).append(field)
    for field in message.field:
        entry = _entry_of(field, message, entries)
        while entry is not None and waiting:
            nested = waiting.pop(0)
            if nested.name == entry.name:
                break
            if not nested.options.map_entry:
                yield from _message(nested, syntax)
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield _field(field, syntax, entry)
        elif field.oneof_index in members:
            yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
            for each in members.pop(field.oneof_index):
                yield f"  {_field(each, syntax, is_member=True)}"
            yield "}"
    for nested in waiting:
        if not nested.options.map_entry:
            yield from _message(nested, syntax)


def _entry_of(
    field: FieldDescriptorProto, message: DescriptorProto, entries: dict[str, DescriptorProto]
) -> DescriptorProto | None:
    """Return the message that stands for a pair of key and value, where the field is a map."""
    parts = field.type_name.split(".")
    return entries.get(parts[-1]) if parts[-2:-1] == [message.name] else None


def _field(
    field: FieldDescriptorProto,
    syntax: str,
    entry: DescriptorProto | None = None,
    *,
    is_member: bool = False,
) -> str:
    options = list(_options(field.options))
    if field.HasField("default_value"):
        options.append(f"default = {_default(field)}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f"json_name = {json.dumps(field.json_name)}")
    if entry is not None:
        kind, label = f"map<{', '.join(_type(each) for each in entry.field)}>", ""
    else:
        kind, label = _type(field), "" if is_member else _label(field, syntax)
    suffix = f" [{', '.join(options)}]" if options else ""
    return f"{label}{kind} {field.name} = {field.number}{suffix};"


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_BYTES:  # Escaped already.
        return f'"{field.default_value}"'
    is_text = field.type == FieldDescriptorProto.TYPE_STRING
    return json.dumps(field.default_value, ensure_ascii=False) if is_text else str(field.default_value)


def _label(field: FieldDescriptorProto, syntax: str) -> str:
    if field.label in _LABELS:
        return _LABELS[field.label]
    return "optional " if syntax == "proto2" or field.proto3_optional else ""


def _type(field: FieldDescriptorProto) -> str:
    return _SCALAR_NAMES.get(field.type, "") or field.type_name


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _extensions(fields: Iterable[FieldDescriptorProto], syntax: str) -> list[str]:
    return [f"extend {each.extendee} {{ {_field(each, syntax)} }}" for each in fields]


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from (f"  option {each};" for each in _options(enum.options))
    yield from (
        f"  {each}" for each in _reserved(enum.reserved_range, enum.reserved_name, ENUM_END, past_end=0)
    )
    for value in enum.value:
        options = list(_options(value.options))
        yield f"  {value.name} = {value.number}{f' [{chr(44).join(options)}]' if options else ''};"
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from (f"  option {each};" for each in _options(service.options))
    for each in service.method:
        given = f"{'stream ' if each.client_streaming else ''}{each.input_type}"
        returned = f"{'stream ' if each.server_streaming else ''}{each.output_type}"
        yield f"  rpc {each.name} ({given}) returns ({returned});"
    yield "}"


def _reserved(ranges: Any, names: Iterable[str], end: int, *, past_end: int) -> list[str]:
    numbers = [_range(each.start, each.end - past_end, end - past_end) for each in ranges]
    found = [f"reserved {', '.join(numbers)};"] if numbers else []
    quoted = [json.dumps(each) for each in names]
    return [*found, f"reserved {', '.join(quoted)};"] if quoted else found


def _range(begin: int, end: int, last: int) -> str:
    return str(begin) if begin == end else f"{begin} to {'max' if end == last else end}"


def _options(options: Any) -> Iterator[str]:
    """Yield the options that protobuf itself knows."""
    for field, value in options.ListFields():
        if field.is_extension or field.message_type is not None or field.name == "map_entry":
            continue
        if field.enum_type is not None:
            yield f"{field.name} = {field.enum_type.values_by_number[value].name}"
        else:
            yield f"{field.name} = {json.dumps(value)}"
