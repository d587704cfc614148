"""Avro schemas as Spark's types, and how their values are converted for Arrow.

Source of the types: Spark's "Apache Avro Data Source Guide", 'Supported types for Avro -> Spark SQL
conversion'. A union of several types has none here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kohort.pipeline.errors import OptionError

Convert = Callable[[Any], Any]
"""Converts a decoded value for Arrow. It is never called with None."""
DECIMAL_DIGITS_MAX = 38
TYPES_MAX = 20_000
"""A schema with more types, those in its types included, has no columns."""
_PRIMITIVES: dict[str, Callable[[], DataType]] = {
    "null": NullType,
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "string": StringType,
    "enum": StringType,
    "fixed": BinaryType,
}
_LOGICAL: dict[tuple[str, str], Callable[[], DataType]] = {
    ("int", "date"): DateType,
    ("long", "timestamp-millis"): TimestampType,
    ("long", "timestamp-micros"): TimestampType,
    ("long", "local-timestamp-millis"): TimestampNTZType,
    ("long", "local-timestamp-micros"): TimestampNTZType,
}
_MIXED = ({"int", "long"}, "long"), ({"float", "double"}, "double")


def without_unknown_logic(schema: Any) -> Any:
    """Return a schema without the logical types that have no type here: the underlying types remain."""
    if isinstance(schema, list):
        return [without_unknown_logic(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: without_unknown_logic(each) if name != "default" else each for name, each in schema.items()
    }
    if "logicalType" in found and _logical_type(found) is None:
        del found["logicalType"]
    return found


def _logical_type(schema: Mapping[str, Any]) -> DataType | None:
    kind, logic = schema.get("type"), schema.get("logicalType")
    if logic == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and scale <= precision <= DECIMAL_DIGITS_MAX:
            return DecimalType(precision, scale)
        return None
    found = _LOGICAL.get((str(kind), str(logic)))
    return None if found is None else found()


class TypesLimit:
    """Counts the types of a schema: definitions that are used twice at every level make billions of them."""

    def __init__(self) -> None:
        self._left = TYPES_MAX

    def count(self) -> None:
        """Count one more type. Raises: OptionError."""
        self._left -= 1
        if self._left < 0:
            raise OptionError(
                f"the schema of values has more than {TYPES_MAX} types: give value_schema, a schema to read"
                " with that leaves some out"
            )


class AvroTypes:
    """The types of a schema that fastavro has parsed, with all schemas that have a name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._open: list[str] = []
        """The records around the present place: a type cannot contain itself."""
        self._limit = TypesLimit()

    def of(self, schema: Any, place: str = "the value") -> tuple[DataType, Convert | None]:
        """Return the type, and how values are converted; None for not at all. Raises: OptionError.

        `place` says where in the value it is.
        """
        self._limit.count()
        if isinstance(schema, list):
            return self._of_union(schema, place)
        if isinstance(schema, str):
            known = self._named.get(schema)
            return self.of(known, place) if known is not None else (_PRIMITIVES[schema](), None)
        logical = _logical_type(schema)
        if logical is not None:
            return logical, None
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._of_record(schema, place)
        if kind == "array":
            item, convert = self.of(schema["items"], f"{place}[]")
            return ArrayType(item), each_of(convert)
        if kind == "map":
            item, convert = self.of(schema["values"], f"{place}{{}}")
            return MapType(StringType(), item), pairs_of(convert)
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _PRIMITIVES[kind](), None
        return self.of(kind, place)

    def _of_union(self, branches: list[Any], place: str) -> tuple[DataType, Convert | None]:
        kept = [each for each in branches if each != "null"]
        if len(kept) == 1:
            return self.of(kept[0], place)
        for names, widest in _MIXED:
            if kept and all(isinstance(each, str) and each in names for each in kept):
                return self.of(widest, place)
        raise OptionError(
            f"{place} is a union of several types, which has no type in Spark: give value_schema, a schema"
            " to read with that leaves it out"
        )

    def _of_record(self, schema: Mapping[str, Any], place: str) -> tuple[DataType, Convert | None]:
        name = str(schema["name"])
        if name in self._open:
            raise OptionError(
                f"{place} is a {name} in a {name}: Spark has no types without an end. Give value_schema, a"
                " schema to read with that leaves it out"
            )
        self._open.append(name)
        found = {each["name"]: self.of(each["type"], f"{place}.{each['name']}") for each in schema["fields"]}
        self._open.pop()
        fields = StructType([StructField(field, kind) for field, (kind, _) in found.items()])
        return fields, fields_of({field: convert for field, (_, convert) in found.items() if convert})


def each_of(convert: Convert | None) -> Convert | None:
    """Return the conversion of a list by that of its items."""
    if convert is None:
        return None

    def each_item(values: Any) -> list[Any]:
        _require(values, list)
        return [None if each is None else convert(each) for each in values]

    return each_item


def pairs_of(convert: Convert | None) -> Convert:
    """Return the conversion of a map to pairs for Arrow, by that of its values."""

    def pairs(values: Any) -> list[tuple[str, Any]]:
        _require(values, dict)
        if convert is None:
            return list(values.items())
        return [(name, None if each is None else convert(each)) for name, each in values.items()]

    return pairs


def fields_of(converts: Mapping[str, Convert]) -> Convert | None:
    """Return the conversion of a record by those of its fields."""
    if not converts:
        return None

    def fields(record: Any) -> dict[str, Any]:
        _require(record, dict)
        changed = {
            name: convert(record[name]) for name, convert in converts.items() if record.get(name) is not None
        }
        return {**record, **changed}

    return fields


def _require(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
