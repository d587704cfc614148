"""The types of Avro, as a schema's text describes them."""

from collections.abc import Mapping
from typing import Any

import msgspec

MISSING: Any = object()
"""The default of a field that has none: null is one."""
PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "error", "enum", "fixed"))

Properties = Mapping[str, Any]


class Primitive(msgspec.Struct, eq=False):
    """A primitive type."""

    kind: str
    properties: Properties = {}


class Array(msgspec.Struct, eq=False):
    """An array."""

    items: "Type"
    properties: Properties = {}
    kind: str = "array"


class Map(msgspec.Struct, eq=False):
    """A map of strings to values."""

    values: "Type"
    properties: Properties = {}
    kind: str = "map"


class Union(msgspec.Struct, eq=False):
    """One of several types."""

    branches: "list[Type]"
    kind: str = "union"


class Field(msgspec.Struct, eq=False):
    """A field of a record."""

    name: str
    type: "Type"
    doc: str | None = None
    default: Any = MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Properties = {}

    @property
    def has_default(self) -> bool:
        """Whether a reader can do without the field."""
        return self.default is not MISSING


class Named(msgspec.Struct, eq=False):
    """What has a name: a record, an enum or a fixed."""

    kind: str
    name: str
    namespace: str
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Properties = {}

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Record(Named, eq=False):
    """A record, or an error."""

    fields: list[Field] = []


class Enum(Named, eq=False):
    """One of several symbols."""

    symbols: tuple[str, ...] = ()
    default: str | None = None


class Fixed(Named, eq=False):
    """So many bytes."""

    size: int = 0


Type = Primitive | Array | Map | Union | Record | Enum | Fixed
