"""The one form in which a schema's text is kept: that of Java's library, which Confluent's registry keeps."""

from collections.abc import Iterable
from typing import Any

from kohort.registry.avro.types import Array, Enum, Field, Fixed, Map, Primitive, Record, Type, Union
from kohort.registry.json_text import write_json


def canonical_text(kind: Type, known: Iterable[str] = (), *, is_normal: bool = False) -> str:
    """Return the text of a type; names that are `known` are defined elsewhere.

    A normal one has whole names and sorted properties: then texts are equal that differ in these alone.
    """
    value = _Writer(set(known), is_normal=is_normal).value(kind, "")
    return write_json(value)


class _Writer:
    def __init__(self, known: set[str], *, is_normal: bool) -> None:
        self._known = known
        self._is_normal = is_normal

    def value(self, kind: Type, space: str) -> Any:
        if isinstance(kind, Union):
            return [self.value(each, space) for each in kind.branches]
        if isinstance(kind, Primitive):
            return {"type": kind.kind, **self._properties(kind.properties)} if kind.properties else kind.kind
        if isinstance(kind, Array):
            items = self.value(kind.items, space)
            return {"type": "array", "items": items, **self._properties(kind.properties)}
        if isinstance(kind, Map):
            values = self.value(kind.values, space)
            return {"type": "map", "values": values, **self._properties(kind.properties)}
        return self._named(kind, space)

    def _named(self, kind: Record | Enum | Fixed, space: str) -> Any:
        if kind.full_name in self._known:
            is_whole = self._is_normal or (kind.namespace and kind.namespace != space)
            return kind.full_name if is_whole else kind.name
        self._known.add(kind.full_name)
        found: dict[str, Any] = {"type": kind.kind, "name": kind.name}
        if self._is_normal:
            found["name"] = kind.full_name
        elif kind.namespace != space:
            found["namespace"] = kind.namespace
        if kind.doc is not None:
            found["doc"] = kind.doc
        if isinstance(kind, Record):
            found["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
        elif isinstance(kind, Enum):
            found["symbols"] = list(kind.symbols)
            if kind.default is not None:
                found["default"] = kind.default
        else:
            found["size"] = kind.size
        found.update(self._properties(kind.properties))
        if kind.aliases:
            found["aliases"] = self._aliases(kind.aliases, kind.namespace)
        return found

    def _field(self, field: Field, space: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": field.name, "type": self.value(field.type, space)}
        if field.doc is not None:
            found["doc"] = field.doc
        if field.has_default:
            found["default"] = field.default
        if field.order != "ascending":
            found["order"] = field.order
        if field.aliases:
            found["aliases"] = sorted(field.aliases) if self._is_normal else list(field.aliases)
        found.update(self._properties(field.properties))
        return found

    def _aliases(self, aliases: tuple[str, ...], space: str) -> list[str]:
        if self._is_normal:
            return sorted(aliases)
        prefix = f"{space}."
        return [
            each.removeprefix(prefix) if "." not in each.removeprefix(prefix) else each for each in aliases
        ]

    def _properties(self, properties: Any) -> dict[str, Any]:
        return dict(sorted(properties.items())) if self._is_normal else dict(properties)
