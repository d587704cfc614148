import json
from typing import Any

import pytest

from kohort.registry.avro.schema import parse_avro
from kohort.registry.errors import InvalidSchema


def canonical(value: Any, dependencies: tuple[tuple[str, str], ...] = ()) -> Any:
    return json.loads(parse_avro(json.dumps(value), dependencies).canonical)


def test_the_text_has_javas_order_and_no_spaces() -> None:
    text = """{ "fields": [ {
        "type": {"type": "string", "avro.java.string": "String"}, "doc": "d", "name": "f",
        "order": "ascending", "aliases": ["g"], "default": "x", "extra": 1} ],
        "doc": "words \u00e9", "type": "record", "namespace": "a.b", "name": "R", "connect.name": "c" }"""
    assert parse_avro(text).canonical == (
        '{"type":"record","name":"R","namespace":"a.b","doc":"words é","fields":[{"name":"f","type":'
        '{"type":"string","avro.java.string":"String"},"doc":"d","default":"x","aliases":["g"],"extra":1}],'
        '"connect.name":"c"}'
    )


def test_a_primitive_in_an_object_is_its_name() -> None:
    assert canonical({"type": "string"}) == "string"
    assert canonical({"type": {"type": "long", "logicalType": "timestamp-millis"}}) == {
        "type": "long",
        "logicalType": "timestamp-millis",
    }


def test_a_namespace_is_written_once() -> None:
    inner = {"type": "enum", "name": "a.b.E", "symbols": ["X"]}
    value = {
        "type": "record",
        "name": "a.b.R",
        "fields": [{"name": "e", "type": inner}, {"name": "f", "type": "E"}],
    }
    found = canonical(value)
    assert (found["name"], found["namespace"]) == ("R", "a.b")
    assert "namespace" not in found["fields"][0]["type"]
    assert found["fields"][1]["type"] == "E"


def test_an_empty_namespace_inside_another_is_written() -> None:
    inner = {"type": "fixed", "name": "F", "namespace": "", "size": 1}
    found = canonical({"type": "record", "name": "a.R", "fields": [{"name": "f", "type": inner}]})
    assert found["fields"][0]["type"]["namespace"] == ""


def test_names_of_other_schemas_are_used_and_not_repeated() -> None:
    other = json.dumps({"type": "record", "name": "x.Other", "fields": []})
    found = canonical(
        {"type": "record", "name": "R", "fields": [{"name": "o", "type": "x.Other"}]}, (("x.Other", other),)
    )
    assert found["fields"][0]["type"] == "x.Other"


def test_normalized_texts_differ_in_nothing_that_a_reader_sees() -> None:
    one = {
        "type": "record",
        "name": "a.R",
        "b": 1,
        "a": 2,
        "fields": [{"name": "f", "type": "int", "z": 1, "y": 2}],
    }
    other = {"type": "record", "name": "R", "namespace": "a", "a": 2, "b": 1,
             "fields": [{"name": "f", "type": {"type": "int"}, "y": 2, "z": 1}]}  # fmt: skip
    first, second = (parse_avro(json.dumps(each)) for each in (one, other))
    assert first.canonical != second.canonical
    assert first.normalized == second.normalized


def fields(*kinds: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", **each} for n, each in enumerate(kinds)],
    }


@pytest.mark.parametrize(
    "value",
    [
        {},
        7,
        "unknown",
        {"type": "record", "name": "R"},
        {"type": "record", "name": "1R", "fields": []},
        {"type": "record", "name": "a..R", "fields": []},
        {"type": "record", "name": "int", "fields": []},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "f", "type": "int"}, {"name": "f", "type": "int"}],
        },
        {"type": "record", "name": "R", "fields": [{"name": "f"}]},
        {"type": "record", "name": "R", "fields": ["f"]},
        {"type": "record", "name": "R", "fields": [], "aliases": "x"},
        {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["A-B"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": True},
        {"type": "array"},
        ["int", ["string"]],
        ["int", "int"],
        [{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}],
        fields({"type": "int", "default": "1"}),
        fields({"type": "int", "default": 2**31}),
        fields({"type": "null", "default": 0}),
        fields({"type": ["null", "int"], "default": "x"}),
        fields({"type": {"type": "array", "items": "int"}, "default": [1, "2"]}),
        fields({"type": "int", "order": "upwards"}),
    ],
)
def test_an_invalid_schema_is_refused(value: Any) -> None:
    with pytest.raises(InvalidSchema):
        parse_avro(json.dumps(value))


@pytest.mark.parametrize("text", ["", "{", "string", '{"type": NaN}', "[" * 100_000, '{"type":' * 5_000])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_avro(text)


@pytest.mark.parametrize(
    "field",
    [
        {"type": ["null", "string"], "default": None},
        {"type": ["null", "string"], "default": "any branch"},
        {"type": "double", "default": 1},
        {"type": "float", "default": "NaN"},
        {"type": "bytes", "default": "\u00ff"},
        {"type": {"type": "map", "values": "int"}, "default": {}},
        {
            "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 1}]},
            "default": {},
        },
        {"type": ["null", "R"], "default": None},
    ],
)
def test_valid_defaults_are_kept(field: Any) -> None:
    assert canonical(fields(field))["fields"][0]["default"] == field["default"]


def test_an_old_schema_can_have_a_wrong_default() -> None:
    text = json.dumps(fields({"type": "int", "default": "1"}))
    assert '"default":"1"' in parse_avro(text, is_new=False).canonical
