import json
from typing import Any

import pytest

from kohort.registry.errors import InvalidSchema
from kohort.registry.json_schema.schema import parse_json_schema

pytest.importorskip("jsonschema", reason="the extra `registry` has jsonschema")

OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
TEXTS = {**OPEN, "additionalProperties": {"type": "string"}}
MORE = {"a": {"type": "string"}, "b": {"type": "string"}}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "additionalProperties": False,
}


def changed(schema: Any, **more: Any) -> Any:
    return {**schema, **more}


def tree(kind: str) -> Any:
    return changed(TREE, properties={**TREE["properties"], "value": {"type": kind}})


def defined(kind: str, **more: Any) -> Any:
    return {"definitions": {"x": {"type": kind, **more}}, "properties": {"p": {"$ref": "#/definitions/x"}}}


CAN = [  # What a reader takes, and what a writer writes.
    ({}, OPEN),
    (True, OPEN),
    (OPEN, False),
    ({"type": "number"}, {"type": "integer"}),
    ({"type": ["string", "null"]}, {"type": "string"}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["null", "string"]}),
    ({"type": "string"}, {"enum": ["a", "b"]}),
    ({"enum": ["a", "b", "c"]}, {"enum": ["b", "a"]}),
    ({"enum": [1, 2]}, {"const": 1}),
    ({"maximum": 10}, {"maximum": 5}),
    ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 6}),
    ({"type": "number", "multipleOf": 0.5}, {"type": "number", "multipleOf": 10**400}),
    ({"type": "number", "maximum": 10**400}, {"type": "number", "maximum": 0.5}),
    ({"minLength": 0}, {}),
    (changed(CLOSED, properties=MORE), CLOSED),
    (OPEN, changed(OPEN, properties=MORE)),
    (changed(TEXTS, properties=MORE), TEXTS),
    (TEXTS, changed(TEXTS, properties=MORE)),
    (OPEN, CLOSED),
    (OPEN, TEXTS),
    (changed(OPEN, required=[]), changed(OPEN, required=["a"])),
    (changed(OPEN, properties={"a": {"type": "string", "default": ""}}, required=["a"]), OPEN),
    ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": {"type": "integer"}}),
    ({"items": [{"type": "string"}]}, {"items": [{"type": "string"}, {"type": "null"}]}),
    ({"oneOf": [{"type": "string"}, OPEN]}, OPEN),
    (OPEN, {"allOf": [OPEN, {"required": ["a"]}]}),
    ({"not": {"enum": [1]}}, {"not": {"type": "number"}}),
    (tree("number"), tree("integer")),
    (defined("number"), defined("integer")),
    ({"patternProperties": {"^x": {"type": "number"}}}, {"patternProperties": {"^x": {"type": "integer"}}}),
]
CANNOT = [
    (OPEN, {}, "TYPE_NARROWED"),
    (False, OPEN, "SCHEMA_FALSE"),
    ({"type": "integer"}, {"type": "number"}, "TYPE_NARROWED"),
    ({"type": "string"}, {"type": "integer"}, "TYPE_CHANGED"),
    ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "null"}, "SUM_TYPE_NARROWED"),
    ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "TYPE_CHANGED"),
    ({"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": ["a"]}, {"type": "string"}, "ENUM_ADDED"),
    ({"maximum": 5}, {"maximum": 10}, "MAXIMUM_DECREASED"),
    ({"exclusiveMinimum": 5}, {}, "EXCLUSIVE_MINIMUM_ADDED"),
    ({"multipleOf": 4}, {"multipleOf": 6}, "MULTIPLE_OF_CHANGED"),
    ({"pattern": "^b"}, {"pattern": "^a"}, "PATTERN_CHANGED"),
    (changed(OPEN, properties=MORE), OPEN, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (CLOSED, changed(CLOSED, properties=MORE), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (CLOSED, OPEN, "SCHEMA_FALSE"),
    (TEXTS, OPEN, "TYPE_NARROWED"),
    (changed(OPEN, required=["a"]), OPEN, "REQUIRED_PROPERTY_ADDED"),
    (changed(OPEN, dependentRequired={"a": ["b"]}), OPEN, "DEPENDENCY_ARRAY_EXTENDED"),
    ({"uniqueItems": True}, {}, "UNIQUE_ITEMS_ADDED"),
    ({"contains": {"type": "string"}}, {}, "CONTAINS_ADDED"),
    ({"not": {"type": "number"}}, {"not": {"enum": [1]}}, "NOT_TYPE_EXTENDED"),
    ({"if": OPEN, "then": CLOSED}, OPEN, "CONDITION_CHANGED"),
    (tree("integer"), tree("number"), "TYPE_NARROWED"),
    (defined("integer"), defined("number"), "TYPE_NARROWED"),
    (defined("string", maxLength=3), defined("string", maxLength=4), "MAX_LENGTH_DECREASED"),
]


def problems(reader: Any, writer: Any) -> list[str]:
    new, old = (parse_json_schema(json.dumps(each)) for each in (reader, writer))
    return list(new.problems_reading(old))


@pytest.mark.parametrize("reader, writer", CAN)
def test_a_wider_reader_is_compatible(reader: Any, writer: Any) -> None:
    assert problems(reader, writer) == []


@pytest.mark.parametrize("reader, writer, kind", CANNOT)
def test_a_narrower_reader_is_incompatible(reader: Any, writer: Any, kind: str) -> None:
    assert kind in problems(reader, writer)[0]


@pytest.mark.parametrize("schema", [reader for reader, _ in CAN] + [reader for reader, _, _ in CANNOT])
def test_every_schema_is_compatible_with_itself(schema: Any) -> None:
    assert problems(schema, schema) == []


def test_beside_a_reference_keywords_count_since_2019() -> None:
    def schema(draft: str, **more: Any) -> Any:
        return {"$schema": draft, "$defs": {"x": {"type": "integer"}}, "$ref": "#/$defs/x", **more}

    new, old = "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"
    assert problems(schema(new, maximum=5), schema(new))
    assert problems(schema(old, maximum=5), schema(old)) == []


def test_recursive_alternatives_terminate() -> None:
    def schema(kind: str) -> Any:
        leaf = {"type": kind}
        pair = {"type": "array", "items": {"$ref": "#"}}
        return {"title": "t", "minProperties": 0, "anyOf": [leaf, pair], "oneOf": [leaf, pair]}

    assert problems(schema("number"), schema("integer")) == []
    assert problems(schema("integer"), schema("number"))


def test_a_reference_is_resolved_by_name_or_address() -> None:
    user = json.dumps({"$id": "http://shop/user.json", "type": "object", "$defs": {"n": {"type": "string"}}})
    texts = {
        "by name": {"properties": {"u": {"$ref": "user.json#/$defs/n"}}},
        "by address": {"$id": "http://shop/order.json", "properties": {"u": {"$ref": "user.json"}}},
    }
    for each in texts.values():
        parse_json_schema(json.dumps(each), [("user.json", user)])
    with pytest.raises(InvalidSchema, match="refers to nothing"):
        parse_json_schema(json.dumps(texts["by name"]))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "{", '{"type": "nothing"}', '{"properties": []}', '{"$ref": "#/a"}', '{"maximum": NaN}'],
)
def test_an_invalid_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_json_schema(text)


@pytest.mark.parametrize("deep", ['{"not":' * 5_000 + "{}" + "}" * 5_000, '{"not":' * 150 + "{}" + "}" * 150])
def test_a_too_deep_schema_is_refused(deep: str) -> None:
    with pytest.raises(InvalidSchema, match="too deeply"):
        parse_json_schema(deep)


def test_a_reference_to_itself_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="itself"):
        problems({"$ref": "#"}, {"type": "string"})


def test_a_hostile_pattern_is_not_run() -> None:
    name = "a" * 60 + "!"
    new = {"patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    assert problems(new, {"properties": {name: {"type": "string"}}})


def test_many_alternatives_are_refused_and_not_compared_for_ever() -> None:
    def schema(kind: str) -> Any:
        defined: Any = {"d30": {"type": kind}}
        for level in range(30):
            branches = [{"properties": {f"p{n}": {"$ref": f"#/definitions/d{level + 1}"}}} for n in range(40)]
            defined[f"d{level}"] = {"anyOf": branches}
        return {"definitions": defined, "$ref": "#/definitions/d0"}

    with pytest.raises(InvalidSchema, match="too complex"):
        problems(schema("string"), schema("integer"))


def test_long_lists_are_cheap_or_refused() -> None:
    values = [f"v{n}" for n in range(50_000)]
    assert problems({"enum": values}, {"enum": values[::-1]}) == []
    assert problems({"enum": values}, {"enum": [*values, "another"]})
    for hostile in ({"required": [1, "a"] * 1_000}, {"enum": [{"n": n} for n in range(2_000)]}):
        with pytest.raises(InvalidSchema, match="a list"):
            parse_json_schema(json.dumps(hostile))


def test_the_text_is_compact_and_sorted_if_normalized() -> None:
    schema = parse_json_schema('{ "type": "object",\n "properties": {"é": {}} }')
    assert schema.canonical == '{"type":"object","properties":{"é":{}}}'
    assert schema.normalized == '{"properties":{"é":{}},"type":"object"}'
