"""JSON Schemas as Spark's types, and how their values are converted for Arrow.

A part without a single type, such as `anyOf` of a string and a number, is a string with its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from kohort.pipeline.avro_types import Convert, TypesLimit, each_of, fields_of, pairs_of

DEPTH_MAX = 32
"""A value this deep is JSON from there on."""
_PRIMITIVES = {"boolean": BooleanType, "integer": LongType, "number": DoubleType, "string": StringType}
_NULL = "null"


def json_types(root: Any) -> tuple[DataType, Convert | None]:
    """Return the type of a schema, and how its values are converted. Raises: OptionError."""
    return _JsonTypes(root).of(root, ())


class _JsonTypes:
    """The types of one schema. A definition inside itself is a string with its JSON."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._limit = TypesLimit()

    def of(self, schema: Any, around: tuple[str, ...], depth: int = 0) -> tuple[DataType, Convert | None]:
        """Return the type of a part, and its conversion; `around` are the references that led to it."""
        self._limit.count()
        found, around = self._resolved(schema, around)
        kind = _single_type(found)
        if depth > DEPTH_MAX or kind is None:
            return StringType(), _as_json
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind](), None
        if kind == "array":
            item, convert = self.of(found.get("items") or {}, around, depth + 1)
            return ArrayType(item), each_of(convert)
        properties = found.get("properties")
        if properties:
            parts = {name: self.of(each, around, depth + 1) for name, each in properties.items()}
            fields = StructType([StructField(name, part) for name, (part, _) in parts.items()])
            return fields, fields_of({name: convert for name, (_, convert) in parts.items() if convert})
        values = found.get("additionalProperties")
        if isinstance(values, Mapping):
            value, convert = self.of(values, around, depth + 1)
            return MapType(StringType(), value), pairs_of(convert)
        return StringType(), _as_json

    def _resolved(self, schema: Any, around: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return a schema, or the definition in the same text that it names, without the choice of null.

        The references that were followed are added to those around it. One that is there already is not
        followed: the result is the schema of any value.
        """
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, Mapping):
                break  # true, or a list of schemas by position: anything.
            name = schema.get("$ref")
            if isinstance(name, str):
                if name in around or not name.startswith("#"):
                    break
                schema, around = _at(self._root, name), (*around, name)
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if not choices or "type" in schema:
                return schema, around
            kept = [each for each in choices if each != {"type": _NULL}]
            if len(kept) != 1:
                break
            schema = kept[0]
        return {}, around


def _at(root: Any, pointer: str) -> Any:
    found = root
    for part in pointer.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _single_type(schema: Mapping[str, Any]) -> str | None:
    """Return the one type beside null that values have, None for none or several."""
    given = schema.get("type", "object" if "properties" in schema else None)
    kinds = set(given) - {_NULL} if isinstance(given, list) else {given}
    if kinds == {"integer", "number"}:
        return "number"
    (kind, *others) = kinds or {None}
    if others or not isinstance(kind, str):
        return None
    return kind if kind in ("array", "object", *_PRIMITIVES) else None


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
