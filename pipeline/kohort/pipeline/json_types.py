"""JSON Schemas as Spark's types, and what their values take to become Arrow's.

What has no single type, such as `anyOf` of a string and a number, is a string with its JSON.
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

from kohort.pipeline.avro_types import Convert, each_of, fields_of, pairs_of

DEPTH_MAX = 32
"""Schemas that contain themselves are JSON from there on."""
_PRIMITIVES = {"boolean": BooleanType, "integer": LongType, "number": DoubleType, "string": StringType}
_NULL = "null"


def json_types(root: Any, schema: Any = None, depth: int = 0) -> tuple[DataType, Convert | None]:
    """Return the type of a schema in `root`, by default of `root` itself, and what its values need."""
    found = _resolved(root, root if schema is None else schema)
    kind = _single_type(found)
    if depth > DEPTH_MAX or kind is None:
        return StringType(), _as_json
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind](), None
    if kind == "array":
        item, convert = json_types(root, found.get("items") or {}, depth + 1)
        return ArrayType(item), each_of(convert)
    properties = found.get("properties")
    if properties:
        parts = {name: json_types(root, each, depth + 1) for name, each in properties.items()}
        fields = StructType([StructField(name, part) for name, (part, _) in parts.items()])
        return fields, fields_of({name: convert for name, (_, convert) in parts.items() if convert})
    values = found.get("additionalProperties")
    if isinstance(values, Mapping):
        value, convert = json_types(root, values, depth + 1)
        return MapType(StringType(), value), pairs_of(convert)
    return StringType(), _as_json


def _resolved(root: Any, schema: Any) -> Mapping[str, Any]:
    """Return a schema, or the definition in the same text that it names, without the choice of null."""
    for _ in range(DEPTH_MAX):
        if not isinstance(schema, Mapping):
            return {}  # true, or a list of schemas by position: anything.
        name = schema.get("$ref")
        if isinstance(name, str):
            schema = _at(root, name) if name.startswith("#") else {}
            continue
        choices = schema.get("oneOf") or schema.get("anyOf")
        if not choices or "type" in schema:
            return schema
        kept = [each for each in choices if each != {"type": _NULL}]
        if len(kept) != 1:
            return {}
        schema = kept[0]
    return {}


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
