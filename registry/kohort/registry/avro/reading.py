"""Reads the JSON of an Avro schema into types, by the rules of the specification and of its Java library."""

import json
from collections.abc import Mapping
from typing import Any

from kohort.registry.avro.defaults import fits
from kohort.registry.avro.types import (
    MISSING,
    NAMED,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from kohort.registry.errors import InvalidSchema
from kohort.registry.json_text import read_json

DEPTH_MAX = 100
"""Types within types, in one text."""
_OF_TYPE = {
    "record": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "error": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default", "aliases"),
    "fixed": ("type", "name", "namespace", "doc", "size", "aliases"),
    "array": ("type", "items"),
    "map": ("type", "values"),
}
_OF_FIELD = ("name", "type", "doc", "default", "order", "aliases")
_ORDERS = ("ascending", "descending", "ignore")


class Reader:
    """Reads texts that may use each other's names."""

    def __init__(self, *, checks_defaults: bool) -> None:
        """Say whether defaults have to fit their types: schemas of old registries may have others."""
        self.names: dict[str, Named] = {}
        self._checks_defaults = checks_defaults
        self._defaults: list[tuple[Record, Field]] = []

    def read(self, text: str) -> Type:
        """Return the type that a text describes. Raises: InvalidSchema."""
        try:
            found = self._type(read_json(text), "", 0)
        except RecursionError:
            raise InvalidSchema("it is nested too deeply") from None
        for record, field in self._defaults:
            if not fits(field.type, field.default):
                raise InvalidSchema(
                    f"the default of field {field.name} of {record.full_name} is not of its type"
                )
        self._defaults.clear()
        return found

    def _type(self, value: Any, space: str, depth: int) -> Type:
        if depth > DEPTH_MAX:
            raise InvalidSchema("it is nested too deeply")
        if isinstance(value, str):
            return self._by_name(value, space)
        if isinstance(value, list):
            return self._union(value, space, depth)
        if not isinstance(value, dict):
            raise InvalidSchema(f"{_short(value)} is no type")
        kind = value.get("type")
        if isinstance(kind, (dict, list)):
            return self._type(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise InvalidSchema(f"{_short(value)} has no type")
        if kind in PRIMITIVES:
            return Primitive(kind, _besides(value, ("type",)))
        if kind == "array":
            items = self._type(_required(value, "items"), space, depth + 1)
            return Array(items, _besides(value, _OF_TYPE[kind]))
        if kind == "map":
            values = self._type(_required(value, "values"), space, depth + 1)
            return Map(values, _besides(value, _OF_TYPE[kind]))
        if kind in NAMED:
            return self._named(kind, value, space, depth)
        return self._by_name(kind, space)

    def _by_name(self, name: str, space: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        found = self.names.get(name if "." in name or not space else f"{space}.{name}")
        found = found or self.names.get(name)
        if found is None:
            raise InvalidSchema(f'"{name}" is not a defined name')
        assert isinstance(found, (Record, Enum, Fixed))
        return found

    def _union(self, value: list[Any], space: str, depth: int) -> Union:
        branches = [self._type(each, space, depth + 1) for each in value]
        seen = set()
        for each in branches:
            if isinstance(each, Union):
                raise InvalidSchema("a union may not have a union in it")
            name = each.full_name if isinstance(each, Named) else each.kind
            if name in seen:
                raise InvalidSchema(f"a union has {name} twice")
            seen.add(name)
        return Union(branches)

    def _named(self, kind: str, value: Mapping[str, Any], space: str, depth: int) -> Type:
        name, namespace = _name_of(value, space)
        doc = value.get("doc") if isinstance(value.get("doc"), str) else None
        aliases = tuple(
            each if "." in each or not namespace else f"{namespace}.{each}" for each in _aliases(value)
        )
        properties = _besides(value, _OF_TYPE[kind])
        found: Record | Enum | Fixed
        if kind == "fixed":
            size = _required(value, "size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise InvalidSchema(f"the size of {name} is no number of bytes")
            found = Fixed(kind, name, namespace, doc, aliases, properties, size)
        elif kind == "enum":
            symbols = _symbols(name, _required(value, "symbols"))
            default = value.get("default")
            if default is not None and default not in symbols:
                raise InvalidSchema(f"the default of {name} is none of its symbols")
            found = Enum(kind, name, namespace, doc, aliases, properties, symbols, default)
        else:
            found = Record(kind, name, namespace, doc, aliases, properties, [])
        if found.full_name in self.names:
            raise InvalidSchema(f"{found.full_name} is defined twice")
        self.names[found.full_name] = found
        if isinstance(found, Record):
            self._read_fields(found, _required(value, "fields"), depth)
        return found

    def _read_fields(self, record: Record, fields: object, depth: int) -> None:
        if not isinstance(fields, list):
            raise InvalidSchema(f"the fields of {record.full_name} are no list")
        seen = set()
        for each in fields:
            if not isinstance(each, dict):
                raise InvalidSchema(f"a field of {record.full_name} is no object")
            field = self._field(each, record.namespace, depth)
            if field.name in seen:
                raise InvalidSchema(f"{record.full_name} has field {field.name} twice")
            seen.add(field.name)
            record.fields.append(field)
            if field.has_default and self._checks_defaults:
                self._defaults.append((record, field))

    def _field(self, value: Mapping[str, Any], space: str, depth: int) -> Field:
        name = _checked_name(_required(value, "name"))
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"the order of field {name} is none of {', '.join(_ORDERS)}")
        kind = self._type(_required(value, "type"), space, depth + 1)
        doc = value.get("doc") if isinstance(value.get("doc"), str) else None
        default = value.get("default", MISSING)
        return Field(name, kind, doc, default, order.lower(), _aliases(value), _besides(value, _OF_FIELD))


def _required(value: Mapping[str, Any], name: str) -> Any:
    if name not in value:
        raise InvalidSchema(f"{_short(value)} has no {name}")
    return value[name]


def _besides(value: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in known}


def _aliases(value: Mapping[str, Any]) -> tuple[str, ...]:
    aliases = value.get("aliases")
    if aliases is None:
        return ()
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
        raise InvalidSchema(f"the aliases of {_short(value)} are no list of names")
    return tuple(dict.fromkeys(aliases))


def _symbols(name: str, symbols: object) -> tuple[str, ...]:
    if not isinstance(symbols, list):
        raise InvalidSchema(f"the symbols of {name} are no list")
    found = tuple(_checked_name(each) for each in symbols)
    if len(set(found)) != len(found):
        raise InvalidSchema(f"{name} has a symbol twice")
    return found


def _name_of(value: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return a named type's name, and its namespace: in the name, beside it, or of what is around."""
    name = _required(value, "name")
    if not isinstance(name, str):
        raise InvalidSchema(f"{_short(name)} is no name")
    if "." in name:
        namespace, _, name = name.rpartition(".")
    else:
        given = value.get("namespace")
        if given is not None and not isinstance(given, str):
            raise InvalidSchema(f"the namespace of {name} is no text")
        namespace = space if given is None else given
    for each in namespace.split(".") if namespace else ():
        _checked_name(each)
    if name in PRIMITIVES and not namespace:
        raise InvalidSchema(f"{name} is the name of a primitive type")
    return _checked_name(name), namespace


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"{_short(name)} is no name")
    if not (name[0].isalpha() or name[0] == "_") or not all(each.isalnum() or each == "_" for each in name):
        raise InvalidSchema(f"{_short(name)} is no name: letters, digits and _, not a digit first")
    return name


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
