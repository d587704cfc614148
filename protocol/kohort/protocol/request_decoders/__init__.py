"""The decoders of the most frequent requests, which mypyc compiles for wheels with compiled modules.

`module_writer` writes a module of this package for each of `APIS`, from the lines that a process without
these modules writes at run time. A module serves only the schema for which it was written. For another
schema, and for buffers other than `bytes`, decoders are written at run time. Decision 0065.
"""

from functools import cache
from importlib import import_module

from kohort.protocol import compiler
from kohort.protocol.digest import blake2b
from kohort.protocol.schema import Decoder, Message

MESSAGES = "kohort.protocol.messages"
APIS = (
    "consumer_group_heartbeat",
    "fetch",
    "heartbeat",
    "join_group",
    "offset_commit",
    "offset_fetch",
    "produce",
    "sync_group",
)
"""The modules of `kohort.protocol.messages` whose requests have compiled decoders."""


def compiled_decoder(cls: type[Message], version: int) -> Decoder | None:
    """Return the compiled decoder of a request, or None where there is none for this schema."""
    package, _, api = cls.__module__.rpartition(".")
    if package != MESSAGES or api not in APIS or not cls.__name__.endswith("Request"):
        return None
    return decoders_of(cls, f"{__name__}.{api}").get(version)


@cache
def decoder_of_buffers(cls: type[Message], version: int) -> Decoder:
    """Return the decoder that is written at run time: it takes a `bytearray` and a `memoryview` as well."""
    return compiler.decoder(cls, version)


def schema_digest(cls: type[Message]) -> str:
    """Return a digest of everything that a declaration says about the bytes of a message."""
    return blake2b("\n".join(_schema_lines(cls)).encode(), digest_size=16).hexdigest()


@cache
def decoders_of(cls: type[Message], name: str) -> dict[int, Decoder]:
    """Return the decoders in a module of this package, or none if the module is of another schema."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return {}  # A clone, or a wheel without compiled modules.
    decoders: dict[int, Decoder] = module.DECODERS
    return decoders if schema_digest(cls) == module.SCHEMA else {}


def _schema_lines(cls: type[Message]) -> list[str]:
    declared = cls.declaration()
    lines = [f"{cls.__name__} {declared.versions} {declared.flexible} {declared.max_items}"]
    for field in declared.fields:
        lines.append(repr(field))
        if field.struct is not None:
            lines += _schema_lines(field.struct)
    return lines
