"""Values by a schema: the types, and what becomes of bytes that fit and that do not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
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
    """What stands for a registry: schemas by id."""

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
    registry = Registered(
        _1=RegisteredSchema(json.dumps(older)),
        _2=RegisteredSchema(json.dumps(newer)),
        _3=RegisteredSchema("{}", (), JSON),
        _4=RegisteredSchema(json.dumps(record({"name": "carrier", "type": "int"}))),
    )
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _self, schema_id: registry.schema(schema_id))
    decoder = ValueDecoder(RegisteredSchema(json.dumps(record(CARRIER, DELAY))), URL, 1_000)
    values = [
        avro(older, {"carrier": "AA"}, 1),
        avro(newer, {"carrier": "DL", "gate": 3, "delay": 5}, 2),
        b"\0\0\0\0\x03{}",
        avro(registry_4 := record({"name": "carrier", "type": "int"}), {"carrier": 1}, 4),
        avro(older, {"carrier": "AA"}, 9),
        b"\x01" + avro(older, {"carrier": "AA"}, 1)[1:],
        b"\0\0",
        None,
        avro(older, {"carrier": "UA"}, 1),
    ]
    assert registry_4
    read, left = decode(decoder, *values)
    assert read[:2] == [{"carrier": "AA", "delay": None}, {"carrier": "DL", "delay": 5}]
    assert read[2:8] == [None] * 6
    assert read[8] == {"carrier": "UA", "delay": None}
    assert left == [None, None, *values[2:7], None, None]
    assert registry.asked == [1, 2, 3, 4, 9]


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
