"""Which changes of a message its readers bear: fields go by their numbers, types by how they are encoded.

As Protocol Buffers' guide to updating a message says, and Confluent's registry checks.
"""

from collections.abc import Iterable
from typing import Any

from kohort.registry.comparing import PROBLEMS_MAX, Comparison, Problems, problem

GROUPS = (
    ("int32", "int64", "uint32", "uint64", "bool", "enum"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)
"""Scalar types that read each other's bytes."""
_GROUP_OF = {name: number for number, names in enumerate(GROUPS) for name in names}
_TEXTS = _GROUP_OF["string"]
_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip  # FieldDescriptorProto.Type.


def problems_reading(reader: Any, writer: Any) -> Problems:
    """Return why a reader's file descriptor bears no data of a writer's. Raises: InvalidSchema."""
    found: Problems = ()
    if reader.package != writer.package:
        found = (problem("PACKAGE_CHANGED", "/", f"{writer.package} has become {reader.package}"),)
    check = _Check()
    return (found + check.whole_files(reader, writer))[:PROBLEMS_MAX]


class _Check(Comparison[Any]):
    """One comparison of messages."""

    def identity(self, reader: Any, writer: Any) -> tuple[int, int]:
        """Return what is the same for the same pair: a file has one message of a name."""
        return hash((reader.file.name, reader.full_name)), hash((writer.file.name, writer.full_name))

    def whole_files(self, reader: Any, writer: Any) -> Problems:
        """Return the problems of all messages of two files."""
        found: Problems = ()
        for name, message in writer.message_types_by_name.items():
            other = reader.message_types_by_name.get(name)
            if other is None:
                found += (problem("MESSAGE_REMOVED", f"/{name}", f"{name} is gone"),)
            else:
                found += self.whole(other, message)
            if len(found) >= PROBLEMS_MAX:
                break
        return found

    def look(self, reader: Any, writer: Any, path: str) -> Problems:
        """Return the problems of two messages."""
        path = f"/{writer.full_name}/"
        found = _one_of_problems(reader, writer, path)
        fields, before = reader.fields_by_number, writer.fields_by_number
        for number in sorted({*fields, *before}):
            where = f"{path}{number}"
            if number not in before:
                if is_required(fields[number]):
                    found += (problem("REQUIRED_FIELD_ADDED", where, f"{fields[number].name} is required"),)
            elif number not in fields:
                found += _removed_problems(reader, before[number], where)
            else:
                found += self._field_problems(fields[number], before[number], where)
            if len(found) >= PROBLEMS_MAX:
                return found
        for name, nested in writer.nested_types_by_name.items():
            if nested.GetOptions().map_entry:
                continue
            other = reader.nested_types_by_name.get(name)
            if other is None:
                found += (problem("MESSAGE_REMOVED", f"{path}{name}", f"{name} is gone"),)
            else:
                found += self.compare(other, nested, path)
        return found

    def _field_problems(self, new: Any, old: Any, path: str) -> Problems:
        kind, before = kind_of(new), kind_of(old)
        if kind != before:
            return (problem("FIELD_KIND_CHANGED", path, f"{old.name} was of {before}, and is of {kind}"),)
        if kind == "map":
            pairs = zip(new.message_type.fields, old.message_type.fields, strict=True)
            return tuple(one for a, b in pairs for one in self._field_problems(a, b, path))
        if kind == "message":
            return self._message_problems(new.message_type, old.message_type, path)
        name, name_before = _NAMES[new.type], _NAMES[old.type]
        if _GROUP_OF[name] != _GROUP_OF[name_before]:
            words = f"{old.name} was {name_before}, and is {name}"
            return (problem("FIELD_SCALAR_KIND_CHANGED", path, words),)
        labels = {label_of(new), label_of(old)} - {""}
        if len(labels) > 1 and _GROUP_OF[name] != _TEXTS:
            words = f"{old.name} was {label_of(old)}, and is {label_of(new)}"
            return (problem("FIELD_NUMERIC_LABEL_CHANGED", path, words),)
        return ()

    def _message_problems(self, new: Any, old: Any, path: str) -> Problems:
        if local_name(new) != local_name(old):
            words = f"{old.full_name} has become {new.full_name}"
            return (problem("FIELD_NAMED_TYPE_CHANGED", path, words),)
        return self.compare(new, old, path)


def kind_of(field: Any) -> str:
    """Return whether a field is a map, a message, or a scalar; enums are scalars."""
    if field.message_type is None:
        return "scalar"
    return "map" if field.message_type.GetOptions().map_entry else "message"


def is_required(field: Any) -> bool:
    """Return whether a message without the field is none."""
    return bool(field.is_required)


def label_of(field: Any) -> str:
    """Return the label of a field as its text has it; nothing for a oneof's, and most of proto3."""
    if field.is_repeated:
        return "repeated"
    if field.is_required:
        return "required"
    if field.containing_oneof is not None:
        return "" if _real_one_of(field) is not None else "optional"
    return "optional" if field.has_presence else ""


def local_name(message: Any) -> str:
    """Return the name of a message within its package."""
    name, package = str(message.full_name), message.file.package
    return name.removeprefix(f"{package}.") if package else name


def _real_one_of(field: Any) -> str | None:
    """Return the name of a field's oneof; a oneof that only stands for `optional` does not count."""
    one_of = field.containing_oneof
    if one_of is None or (len(one_of.fields) == 1 and one_of.name == f"_{field.name}"):
        return None
    return str(one_of.name)


def _removed_problems(reader: Any, field: Any, path: str) -> Problems:
    if is_required(field):
        return (problem("REQUIRED_FIELD_REMOVED", path, f"{field.name} was required"),)
    if _real_one_of(field) is None:
        return ()
    one_of = field.containing_oneof
    survives = any(each.number in reader.fields_by_number for each in one_of.fields)
    if not survives and one_of.name not in reader.oneofs_by_name:
        return ()  # The whole of it is gone.
    return (problem("ONEOF_FIELD_REMOVED", path, f"{field.name} is gone from oneof {one_of.name}"),)


def _one_of_problems(reader: Any, writer: Any, path: str) -> Problems:
    """Return the oneofs by which fields exclude each other that did not before."""
    found: Problems = ()
    for one_of in reader.oneofs:
        origins = set(_origins(one_of.fields, writer.fields_by_number))
        if len(origins) > 1:
            lone = sum(isinstance(each, int) for each in origins)
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if lone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            words = f"fields of oneof {one_of.name} could be there together"
            found += (problem(kind, f"{path}{one_of.name}", words),)
    return found


def _origins(fields: Iterable[Any], before: Any) -> Iterable[str | int]:
    for each in fields:
        if each.number in before:
            yield _real_one_of(before[each.number]) or each.number
