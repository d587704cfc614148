"""Values by a schema: the types, bytes that fit, and bytes that do not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from itertools import pairwise
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kohort.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from kohort.pipeline.errors import OptionError
from kohort.pipeline.options import AVRO, JSON, read_options
from kohort.pipeline.typed_values import ValueDecoder, parse

URL = ("http://127.0.0.1:1",)
NESTED = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line",
            "fields": [{"name": "tags", "type": {"type": "map", "values": ["null", "int"]}}]}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "first", "type": ["null", "Line"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "size", "type": ["null", "int", "long"]},
    ],
}  # fmt: skip
ORDER = {
    "id": 7,
    "lines": [{"tags": {"a": 1, "b": None}}, {"tags": {}}],
    "kind": "NEW",
    "first": None,
    "price": Decimal("3.25"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "uid": "ad9cd9ac-7f0e-4b3a-8c6f-6d5c2d1e0f00",
    "size": 1 << 40,
}


def avro(schema: Any, value: object, schema_id: int | None = None) -> bytes:
    target = BytesIO()
    if schema_id is not None:
        target.write(b"\0" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def decode(decoder: ValueDecoder, *values: bytes | None) -> tuple[list[Any], list[bytes | None]]:
    found = decoder.decode(pa.array(values, type=pa.binary()), decoder.arrow_type)
    return found.values.to_pylist(), found.undecoded.to_pylist()


def by_schema(schema: Any, form: str = AVRO) -> ValueDecoder:
    return ValueDecoder(RegisteredSchema(json.dumps(schema), (), form), (), 1_000)


def test_avro_has_sparks_types() -> None:
    assert parse(RegisteredSchema(json.dumps(NESTED))).kind.simpleString() == (
        "struct<id:bigint,lines:array<struct<tags:map<string,int>>>,kind:string,first:struct<tags:map<string,int>>,"
        "price:decimal(9,2),day:date,at:timestamp,uid:string,size:bigint>"
    )


def test_an_avro_record_becomes_columns() -> None:
    ((order,), left) = decode(by_schema(NESTED), avro(NESTED, ORDER))
    assert order == ORDER | {"lines": [{"tags": [("a", 1), ("b", None)]}, {"tags": []}]}
    assert left == [None]


def test_what_does_not_fit_is_kept_and_ends_nothing() -> None:
    good = avro("string", "AA")
    values = [good, good + b" and more", b"\x04A", b"", None, b"\x04\xff\xfe"]
    assert decode(by_schema("string"), *values) == (
        ["AA", None, None, None, None, None],
        [None, values[1], values[2], b"", None, values[5]],
    )


class Registered:
    """A registry in memory: schemas by id."""

    def __init__(self, **schemas: RegisteredSchema) -> None:
        self.schemas = {int(name[1:]): schema for name, schema in schemas.items()}
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in self.schemas:
            raise SchemaRegistryError(404, 40403, "Schema not found")
        return self.schemas[schema_id]


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Flight", "fields": list(fields)}


CARRIER = {"name": "carrier", "type": "string"}
DELAY = {"name": "delay", "type": ["null", "int"], "default": None}


def test_each_value_is_read_by_the_schema_of_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = record(CARRIER), record({"name": "gate", "type": "int"}, CARRIER, DELAY)
    unlike = record({"name": "carrier", "type": "int"})
    registry = Registered(
        _1=RegisteredSchema(json.dumps(older)),
        _2=RegisteredSchema(json.dumps(newer)),
        _3=RegisteredSchema("{}", (), JSON),
        _4=RegisteredSchema(json.dumps(unlike)),
    )
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _self, schema_id: registry.schema(schema_id))
    decoder = ValueDecoder(RegisteredSchema(json.dumps(record(CARRIER, DELAY))), URL, 1_000)
    values = [
        avro(older, {"carrier": "AA"}, 1),
        avro(newer, {"carrier": "DL", "gate": 3, "delay": 5}, 2),
        b"\0\0\0\0\x03{}",
        avro(unlike, {"carrier": 1}, 4),
        avro(older, {"carrier": "AA"}, 9),
        b"\x01" + avro(older, {"carrier": "AA"}, 1)[1:],
        b"\0\0",
        None,
        avro(older, {"carrier": "UA"}, 1),
    ]
    read, left = decode(decoder, *values)
    assert read[:2] == [{"carrier": "AA", "delay": None}, {"carrier": "DL", "delay": 5}]
    assert read[2:8] == [None] * 6
    assert read[8] == {"carrier": "UA", "delay": None}
    assert left == [None, None, *values[2:7], None, None]
    assert registry.asked == [1, 2, 3, 4, 9]


CITY = {"type": "record", "name": "City", "namespace": "geo", "fields": [CARRIER]}
TRIP = {
    "type": "record",
    "name": "Trip",
    "namespace": "geo",
    "fields": [{"name": "to", "type": "City"}, {"name": "back", "type": ["null", "geo.City"]}],
}
THERE = {"to": {"carrier": "AA"}, "back": {"carrier": "DL"}}


@pytest.mark.parametrize(
    "schema, value, read",
    [
        ("geo.City", {"carrier": "AA"}, {"carrier": "AA"}),
        (["geo.City", "null"], {"carrier": "AA"}, {"carrier": "AA"}),
        (["geo.City", "null"], None, None),
        ("geo.Trip", THERE, THERE),
        (["null", "geo.Trip"], THERE, THERE),
        ({"type": "array", "items": "geo.Trip"}, [THERE], [THERE]),
        ({"type": "map", "values": ["null", "geo.Trip"]}, {"a": THERE}, [("a", THERE)]),
        (record({"name": "trip", "type": "geo.Trip"}), {"trip": THERE}, {"trip": THERE}),
    ],
)
@pytest.mark.parametrize("with_header", [True, False])
def test_a_schema_of_nothing_but_references_is_read(
    monkeypatch: pytest.MonkeyPatch, schema: Any, value: Any, read: Any, with_header: bool
) -> None:
    used = (("geo.City", json.dumps(CITY)), ("geo.Trip", json.dumps(TRIP)))
    registered = RegisteredSchema(json.dumps(schema), used)
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _self, _id: registered)
    decoder = ValueDecoder(registered, URL if with_header else (), 1_000)
    named: dict[str, Any] = {}
    for each in (CITY, TRIP):
        fastavro.parse_schema(each, named)
    # The bytes of a record with one field are those of the field.
    alone = fastavro.parse_schema(
        {"type": "record", "name": "alone", "fields": [{"name": "a", "type": schema}]}, named
    )
    target = BytesIO(b"\0\0\0\0\x01" if with_header else b"")
    target.seek(0, 2)
    fastavro.schemaless_writer(target, alone, {"a": value})
    assert decode(decoder, target.getvalue()) == ([read], [None])


def test_a_schema_that_lacks_a_name_is_no_fault_of_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = by_schema("string")
    unknown = fastavro.schema.UnknownType("geo.City")  # type: ignore[no-untyped-call]  # fastavro gives it no types.

    def forget(*_: object) -> None:
        raise unknown

    monkeypatch.setattr(fastavro, "schemaless_reader", forget)
    with pytest.raises(fastavro.schema.UnknownType):
        decode(decoder, avro("string", "AA"))


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "carrier": {"type": ["string", "null"]},
        "delay": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "legs": {"type": "array", "items": {"$ref": "#/definitions/Leg"}},
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "free": {"type": "object"},
    },
    "definitions": {"Leg": {"type": "object", "properties": {"miles": {"type": ["integer", "number"]}}}},
}


def test_json_becomes_columns_by_a_json_schema() -> None:
    assert parse(RegisteredSchema(json.dumps(JSON_SCHEMA), (), JSON)).kind.simpleString() == (
        "struct<carrier:string,delay:bigint,legs:array<struct<miles:double>>,rates:map<string,double>,any:string,"
        "free:string>"
    )
    values = [
        json.dumps({
            "carrier": "AA", "delay": 7, "legs": [{"miles": 1.5}, {"miles": 2}], "rates": {"a": 1},
            "any": 5, "free": {"b": [1]}, "more": True,
        }).encode(),
        b"{}",
        b'{"delay": "late"}',
        b"no json",
        b"[1]",
        b"\xff",
    ]  # fmt: skip
    read, left = decode(by_schema(JSON_SCHEMA, JSON), *values)
    assert read[0] == {
        "carrier": "AA", "delay": 7, "legs": [{"miles": 1.5}, {"miles": 2.0}], "rates": [("a", 1.0)],
        "any": "5", "free": '{"b":[1]}',
    }  # fmt: skip
    assert read[1] == dict.fromkeys(JSON_SCHEMA["properties"])
    assert read[2:] == [None] * 4
    assert left == [None, None, *values[2:]]


def test_json_of_a_registry_has_its_header() -> None:
    schema = RegisteredSchema('{"type": "object", "properties": {"a": {"type": "integer"}}}', (), JSON)
    values = [b'\0\0\0\0\x01{"a": 1}', b'{"a": 1}']
    assert decode(ValueDecoder(schema, URL, 1_000), *values) == ([{"a": 1}, None], [None, values[1]])


@pytest.mark.parametrize(
    "schema, form, says",
    [
        ("{", AVRO, "no schema of Avro"),
        ('{"type": "recor"}', AVRO, "no schema of Avro"),
        (json.dumps(record({"name": "a", "type": ["string", "int"]})), AVRO, r"the value\.a is a union"),
        (json.dumps(record({"name": "a", "type": ["null", "Flight"]})), AVRO, "a Flight in a Flight"),
        ("{", JSON, "no JSON"),
        ("message A {}", "PROTOBUF", "PROTOBUF"),
    ],
)
def test_a_schema_without_columns_is_refused(schema: str, form: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse(RegisteredSchema(schema, (), form))


def tree(*names: str) -> dict[str, Any]:
    """Return a definition whose properties are of these definitions."""
    return {"properties": {f"to_{name}": {"$ref": f"#/definitions/{name}"} for name in names}}


@pytest.mark.parametrize(
    "schema, simple",
    [
        (
            {"properties": {"left": {"$ref": "#"}, "right": {"oneOf": [{"type": "null"}, {"$ref": "#"}]}}},
            "struct<left:struct<left:string,right:string>,right:struct<left:string,right:string>>",
        ),
        (
            {"$ref": "#/definitions/a", "definitions": {"a": tree("a", "b"), "b": tree("a", "b")}},
            "struct<to_a:string,to_b:struct<to_a:string,to_b:string>>",
        ),
        (
            {"items": {"$ref": "#/items"}, "type": "array"},
            "array<string>",
        ),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}, "string"),
        ({"properties": {"a": {"$ref": "#/definitions/a"}, "b": {"$ref": "#/definitions/a"}},
          "definitions": {"a": {"type": "integer"}}}, "struct<a:bigint,b:bigint>"),
    ],
)  # fmt: skip
def test_a_definition_in_itself_is_json_at_once(schema: Any, simple: str) -> None:
    assert parse(RegisteredSchema(json.dumps(schema), (), JSON)).kind.simpleString() == simple


def test_json_of_a_definition_in_itself_is_read() -> None:
    schema = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "id": {"type": "integer"}}}
    ((found,), left) = decode(by_schema(schema, JSON), b'{"left": {"id": 2, "right": {"id": 3}}, "id": 1}')
    assert found == {"left": {"left": None, "right": '{"id":3}', "id": 2}, "right": None, "id": 1}
    assert left == [None]


LEVELS = 30


def test_a_schema_with_too_many_types_is_refused() -> None:
    names = [str(level) for level in range(LEVELS)]
    definitions: dict[str, Any] = {
        name: {
            "properties": {"a": {"$ref": f"#/definitions/{after}"}, "b": {"$ref": f"#/definitions/{after}"}}
        }
        for name, after in pairwise(names)
    }
    definitions[names[-1]] = {"type": "integer"}
    with pytest.raises(OptionError, match="more than 20000 types"):
        parse(RegisteredSchema(json.dumps({"$ref": "#/definitions/0", "definitions": definitions}), (), JSON))
    schema: Any = "int"
    for level in range(LEVELS):
        fields = [{"name": "a", "type": schema}]
        if level:
            fields.append({"name": "b", "type": f"R{level - 1}"})
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(OptionError, match="more than 20000 types"):
        parse(RegisteredSchema(json.dumps(schema)))


def test_a_json_schema_that_contains_itself_ends_as_json() -> None:
    tree = {"properties": {"child": {"$ref": "#"}}}
    ((found,), _) = decode(by_schema(tree, JSON), b'{"child": {"child": null}}')
    assert found["child"]["child"] is None


@pytest.mark.parametrize(
    "more, says",
    [
        ({"topics": "a,b", "schema_registry": "http://here"}, "several topics"),
        ({"pattern": "a.*", "schema_registry": "http://here"}, "several topics"),
        ({"topics": "a", "value_subject": "a"}, "need schema_registry"),
        ({"topics": "a", "value_schema": "{}", "value_format": "xml"}, "avro or json"),
    ],
)
def test_options_of_values_that_are_wrong(more: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        read_options({"bootstrap": "here:9092"} | more)


def test_the_subject_is_the_topics() -> None:
    given = {"bootstrap": "here:9092", "topics": "a", "schema_registry": "http://here, http://there"}
    values = read_options(given).values
    assert values is not None
    assert (values.subject, values.registry) == ("a-value", ("http://here", "http://there"))
