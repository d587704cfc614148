"""Requests at the limits of their encoding: the longest strings, arrays of any number of elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar
from uuid import UUID

from kohort.protocol.schema import Field, Message, Wire

M = TypeVar("M", bound=Message)
Path = tuple[str, ...]

STRING_BYTES_MAX = 32_767
LONGEST = "n" * STRING_BYTES_MAX
INTEGERS = {"int32", "int64"}


def longest(cls: type[M], version: int, text: str = LONGEST) -> M:
    """Return a message with `text` for every string and one element in every array."""
    values: dict[str, object] = {}
    for field in _fields(cls, version):
        if field.wire.name == "array":
            values[field.name] = (_element_of_text(field, version, text),)
        elif field.struct is not None:
            values[field.name] = longest(field.struct, version, text)
        elif field.wire.name == "string":
            values[field.name] = text
        elif field.wire.name in {"bytes", "records"}:
            values[field.name] = b""
    return cls(**values)


def _element_of_text(field: Field, version: int, text: str) -> object:
    if field.struct is not None:
        return longest(field.struct, version, text)
    assert field.element is not None
    return text if field.element.name == "string" else _numbered(field.element, 0)


def array_paths(cls: type[Message], version: int) -> list[Path]:
    """Return the way to every array in a message: names of fields, from the outermost."""
    found: list[Path] = []
    for field in _fields(cls, version):
        if field.wire.name == "array":
            found.append((field.name,))
        if field.struct is not None:
            found += [(field.name, *rest) for rest in array_paths(field.struct, version)]
    return found


def grown(cls: type[M], version: int, path: Path, count: int, name: str = "") -> M:
    """Return a message with `count` elements in the array at `path`, all different; one in those around it.

    `name` is what the strings on the way there say, such as a group or topic that is there.
    """
    values: dict[str, object] = {}
    for field in _fields(cls, version):
        if field.name != path[0]:
            values |= _named(field, version, name)
        elif len(path) == 1:
            values[field.name] = tuple(_elements(field, version, count))
        else:
            assert field.struct is not None
            inner = grown(field.struct, version, path[1:], count, name)
            values[field.name] = (inner,) if field.wire.name == "array" else inner
    return cls(**values)


def _named(field: Field, version: int, name: str) -> dict[str, object]:
    if field.wire.name == "string" and version not in field.nullable:
        return {field.name: name}
    if field.wire.name in {"array", "bytes", "records"} and field.default is None:
        return {} if version in field.nullable else {field.name: () if field.wire.name == "array" else b""}
    return {}


def _elements(field: Field, version: int, count: int) -> Iterator[object]:
    if field.struct is None:
        assert field.element is not None
        for number in range(count):
            yield _numbered(field.element, number)
        return
    numbered = [
        (inner.name, inner.wire)
        for inner in _fields(field.struct, version)
        if inner.wire.name in INTEGERS or inner.wire.name in {"string", "uuid", "bytes", "records"}
    ]
    for number in range(count):
        yield field.struct(**{name: _numbered(wire, number) for name, wire in numbered})


def _numbered(wire: Wire, number: int) -> object:
    """Return a value of that type, another one for each number where it has so many."""
    if wire.name in INTEGERS:
        return number
    if wire.name == "string":
        return f"{number:x}"
    if wire.name == "uuid":
        return UUID(int=number + 1)
    return b"" if wire.name in {"bytes", "records"} else wire.default


def _fields(cls: type[Message], version: int) -> list[Field]:
    return [
        each
        for each in cls.declaration().fields
        if version in each.versions and not (version in each.tagged and each.struct is None)
    ]
