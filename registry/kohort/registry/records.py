"""The records of the topic `_schemas`: JSON keys and values in the format of Confluent's registry.

The log is the registry: who reads it from its beginning knows all. The topic is compacted: a value replaces
the one before with the same key, and None removes it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

TOPIC = "_schemas"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
LATEST = -1
"""In a reference: the newest version there is when it is registered."""
NESTING_MAX = 100
"""How many levels metadata and rules may have. Some registries cannot read much deeper values."""


class Reference(msgspec.Struct, frozen=True):
    """A name by which a schema uses a version of another subject."""

    name: str
    subject: str
    version: int


class SchemaValue(msgspec.Struct, omit_defaults=True, frozen=True):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schemaType: str = AVRO  # As the format has it.
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    """Tags, properties and what is sensitive: kept and returned."""
    ruleSet: dict[str, Any] | None = None  # As the format has it.
    """Rules that clients execute: kept and returned."""
    deleted: bool = False
    """Whether it is deleted softly: it is not listed, but its id still resolves."""

    def __post_init__(self) -> None:
        """Check how deeply metadata and rules are nested. Raises: ValueError."""
        check_nesting(self.metadata, self.ruleSet)


class SchemaKey(msgspec.Struct, tag_field="keytype", tag="SCHEMA", frozen=True):
    """The version of a subject."""

    subject: str
    version: int
    magic: int = 1


class ConfigKey(msgspec.Struct, tag_field="keytype", tag="CONFIG", frozen=True):
    """The compatibility level of a subject; None is the default for all."""

    subject: str | None = None
    magic: int = 0


class ModeKey(msgspec.Struct, tag_field="keytype", tag="MODE", frozen=True):
    """The mode of a subject; None is the default for all."""

    subject: str | None = None
    magic: int = 0


class DeleteSubjectKey(msgspec.Struct, tag_field="keytype", tag="DELETE_SUBJECT", frozen=True):
    """The soft deletion of a subject's versions up to one."""

    subject: str
    magic: int = 0


class ClearSubjectKey(msgspec.Struct, tag_field="keytype", tag="CLEAR_SUBJECT", frozen=True):
    """The end of what is deleted softly of a subject, or of all of them."""

    subject: str | None = None
    magic: int = 0


class ContextKey(msgspec.Struct, tag_field="keytype", tag="CONTEXT", frozen=True):
    """A context that has had subjects."""

    context: str
    tenant: str = "default"
    magic: int = 0


class NoopKey(msgspec.Struct, tag_field="keytype", tag="NOOP", frozen=True):
    """Nothing: a registry writes it to learn the end of the log."""

    magic: int = 0


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | ContextKey | NoopKey


class ConfigValue(msgspec.Struct, omit_defaults=True, frozen=True):
    """A compatibility level, and what else is set with it."""

    subject: str | None = None
    compatibilityLevel: str | None = None  # As the format has it.
    normalize: bool | None = None


class ModeValue(msgspec.Struct, omit_defaults=True, frozen=True):
    """A mode."""

    mode: str
    subject: str | None = None


class DeleteSubjectValue(msgspec.Struct, frozen=True):
    """Up to which version a subject is deleted."""

    subject: str
    version: int


Value = SchemaValue | ConfigValue | ModeValue | DeleteSubjectValue | None

_key_decoder: msgspec.json.Decoder[Key] = msgspec.json.Decoder(Key)
_values: dict[type, msgspec.json.Decoder[Any]] = {
    SchemaKey: msgspec.json.Decoder(SchemaValue),
    ConfigKey: msgspec.json.Decoder(ConfigValue),
    ModeKey: msgspec.json.Decoder(ModeValue),
    DeleteSubjectKey: msgspec.json.Decoder(DeleteSubjectValue),
}


class Record(msgspec.Struct, frozen=True):
    """One record of the log."""

    key: Key
    value: Value = None


def check_nesting(*values: Any) -> None:
    """Return if no value is nested too deeply. Raises: ValueError."""
    level: list[Any] = list(values)
    for _ in range(NESTING_MAX):
        level = [part for each in level for part in _parts(each)]
        if not level:
            return
    raise ValueError(f"metadata and rules are nested in at most {NESTING_MAX} levels")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value. Keys are as Confluent's registry writes them, for compaction."""
    key = {name: each for name, each in msgspec.to_builtins(record.key).items() if each is not None}
    if record.value is None:
        return msgspec.json.encode(key), None
    value = msgspec.to_builtins(record.value)
    if isinstance(record.value, SchemaValue):
        value["deleted"] = record.value.deleted
    return msgspec.json.encode(key), msgspec.json.encode(value)


def decode(key: bytes, value: bytes | None) -> Record:
    """Return the record of these bytes. Raises: ValueError for what is not of the format."""
    decoded = _key_decoder.decode(key)
    decoder = _values.get(type(decoded))
    if decoder is None or not value:
        return Record(decoded)
    try:
        found = decoder.decode(value)
    except RecursionError:
        raise ValueError("its value is nested too deeply") from None
    if isinstance(decoded, SchemaKey) and decoded != SchemaKey(found.subject, found.version, decoded.magic):
        raise ValueError(f"its value is version {found.version} of {found.subject}, and its key is not")
    return Record(decoded, found)
