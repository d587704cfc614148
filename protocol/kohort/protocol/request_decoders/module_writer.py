"""Writes modules of decoders for mypyc: the lines of `decoder_source`, with the types of their variables.

    python -m kohort.protocol.request_decoders.module_writer FOLDER      writes a module for each of `APIS`

Only a build does this (`hatch_build.py`). Versions with the same lines share a function.
"""

import struct
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from kohort.protocol.compiler import DECODER_NAMES, decoder_source
from kohort.protocol.compiler.decoder_writer import NUMBERS
from kohort.protocol.compiler.source import Source
from kohort.protocol.request_decoders import APIS, MESSAGES, schema_digest
from kohort.protocol.schema import Field, Message

READERS = {"?": "boolean", "b": "int8", "h": "int16", "H": "uint16", "i": "int32", "q": "int64"}
"""The functions of `request_decoders.readers` by formats of `struct`."""

HEAD = '''"""Decoders of {name}, written by kohort.protocol.request_decoders.module_writer."""

from __future__ import annotations

from struct import Struct, unpack_from
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import {module} as messages
from kohort.protocol.compiler.decoder_writer import TooManyItems
from kohort.protocol.errors import WireError
from kohort.protocol.ids import check_ids
from kohort.protocol.request_decoders import decoder_of_buffers
from kohort.protocol.request_decoders.readers import boolean, int8, int16, int32, int64, text, uint16
from kohort.protocol.varint import read_string_length_rest as string_rest
from kohort.protocol.varint import read_uvarint_rest as rest
from kohort.protocol.varint import skip_tags

if TYPE_CHECKING:
    from mypy_extensions import i64

SCHEMA: Final = {schema!r}
MESSAGES: Final[Any] = messages
'''
DECODER = """

def read_{version}(data: bytes, exact: bool, title: str) -> Any:
{variables}
{lines}
"""
# A frame that arrived in pieces is a memoryview.
ENTRY = """

def decode_{version}(data: Any, exact: bool = True) -> Any:
    if isinstance(data, bytes):
        return read_{shared}(data, exact, {title!r})
    return decoder_of_buffers({name}, {version})(data, exact)
"""
# Behind the end `unpack_from` raises what an interpreted decoder raises.
UNPACKER = """

def {name}(data: bytes, pos: i64) -> tuple[{kinds}]:
    if pos + {size} > len(data):
        unpack_from({formats!r}, data, pos)
    return ({values},)
"""


def typed_module(cls: type[Message]) -> str:
    """Return the module with the decoders of all versions of a request."""
    lowest, highest = cls.declaration().versions
    names: dict[str, object] = {cls.__name__: cls}
    shared: dict[str, int] = {}
    functions = []
    entries = []
    for version in range(lowest, highest + 1):
        source = decoder_source(cls, version)
        names.update(source.names)
        lines = "\n".join(source.lines)
        if lines not in shared:
            shared[lines] = version
            functions.append(
                DECODER.format(version=version, variables="\n".join(_variables(source)), lines=lines)
            )
        entries.append(
            ENTRY.format(
                version=version, shared=shared[lines], title=source.names["title"], name=cls.__name__
            )
        )
    table = ", ".join(f"{each}: decode_{each}" for each in range(lowest, highest + 1))
    return "".join(
        (
            HEAD.format(name=cls.__name__, module=cls.__module__, schema=schema_digest(cls)),
            *_bound(cls, names),
            *functions,
            *entries,
            f"\n\nDECODERS: Final[dict[int, Any]] = {{{table}}}\n",
        )
    )


def _variables(source: Source) -> Iterator[str]:
    """Yield the declarations of a decoder's variables, which only mypyc heeds."""
    for name in NUMBERS:
        yield f"    {name}: i64"
    for name, kind in source.variables.items():
        yield f"    {name}: {kind}"


def _bound(cls: type[Message], names: dict[str, object]) -> Iterator[str]:
    """Yield the definitions of all names that the lines have and the head has not."""
    defaults = {id(field.default): (owner, field) for owner, field in _fields(cls)}
    for name, value in names.items():
        if name in DECODER_NAMES or name == "title":
            continue
        if isinstance(value, type):
            yield f"{name}: Final[Any] = MESSAGES.{name}\n"
        elif name.startswith("unpack_from_"):
            yield _unpacker(name, name.removeprefix("unpack_from_").replace("T", "?"))
        else:
            owner, field = defaults[id(value)]
            place = owner.declaration().fields.index(field)
            yield f"{name}: Final[Any] = MESSAGES.{owner.__name__}.declaration().fields[{place}].default\n"


def _unpacker(name: str, formats: str) -> str:
    """Return the function that stands for `struct.Struct(formats).unpack_from`."""
    if any(each not in READERS for each in formats):
        return f"{name}: Final[Any] = Struct('>{formats}').unpack_from\n"
    places = [struct.calcsize(f">{formats[:each]}") for each in range(len(formats))]
    return UNPACKER.format(
        name=name,
        kinds=", ".join("bool" if each == "?" else "i64" for each in formats),
        size=struct.calcsize(f">{formats}"),
        formats=f">{formats}",
        values=", ".join(
            f"{READERS[each]}(data, pos + {place})" for each, place in zip(formats, places, strict=True)
        ),
    )


def _fields(cls: type[Message]) -> Iterator[tuple[type[Message], Field]]:
    for field in cls.declaration().fields:
        yield cls, field
        if field.struct is not None:
            yield from _fields(field.struct)


def request_of(api: str) -> type[Message]:
    """Return the class of the request in a module of messages."""
    found = vars(import_module(f"{MESSAGES}.{api}"))
    (name,) = (each for each in found if each.endswith("Request"))
    request: type[Message] = found[name]
    return request


if __name__ == "__main__":
    for each in APIS:
        Path(sys.argv[1], f"{each}.py").write_text(typed_module(request_of(each)), encoding="utf-8")
