"""Whether the default of a field is a value of its type."""

from typing import Any

from kohort.registry.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union

_WHOLE = {"int": 31, "long": 63}


def fits(kind: Type, value: Any) -> bool:
    """Return whether JSON describes a value of the type; for a union, of one of its types."""
    if isinstance(kind, Union):
        return any(fits(each, value) for each in kind.branches)
    if isinstance(kind, Primitive):
        return _fits_primitive(kind.kind, value)
    if isinstance(kind, Array):
        return isinstance(value, list) and all(fits(kind.items, each) for each in value)
    if isinstance(kind, Map):
        return isinstance(value, dict) and all(fits(kind.values, each) for each in value.values())
    if isinstance(kind, Record):
        return isinstance(value, dict) and all(
            fits(each.type, value[each.name]) if each.name in value else each.has_default
            for each in kind.fields
        )
    if isinstance(kind, Enum):
        return isinstance(value, str) and value in kind.symbols
    assert isinstance(kind, Fixed)
    return isinstance(value, str)


def _fits_primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("bytes", "string"):
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if kind in _WHOLE:
        bound = 1 << _WHOLE[kind]
        return isinstance(value, int) and -bound <= value < bound
    return isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity")
