import json
from typing import Any

import pytest

from kohort.registry.avro.schema import parse_avro
from kohort.registry.errors import InvalidSchema


def record(*fields: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "e", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "f") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


ONE = record(field("f1", "string"))
WITH_DEFAULT = record(field("f1", "string"), field("f2", "string", default="foo"))
WITHOUT_DEFAULT = record(field("f1", "string"), field("f2", "string"))
NULLABLE = record(field("f1", ["null", "string"]))
LINKED = record(field("value", "int"), field("next", ["null", "r"]))
LINKED_LONG = record(field("value", "long"), field("next", ["null", "r"]))
LINKED_TEXT = record(field("value", "string"), field("next", ["null", "r"]))

CAN = [
    (WITH_DEFAULT, ONE),
    (ONE, WITH_DEFAULT),
    (ONE, WITHOUT_DEFAULT),
    (WITHOUT_DEFAULT, WITH_DEFAULT),
    (record(field("new", "string", aliases=["f1"])), ONE),
    (NULLABLE, ONE),
    (record(field("f1", ["null", "string", "int"])), NULLABLE),
    ("long", "int"),
    ("float", "long"),
    ("double", "float"),
    ("bytes", "string"),
    ("string", "bytes"),
    (["int", "string"], "string"),
    ("long", ["int", "long"]),
    (["double"], ["int", "float"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
    (enum("A", "B"), enum("A")),
    (enum("A", default="A"), enum("A", "B")),
    (fixed(4), fixed(4)),
    (LINKED_LONG, LINKED),
    (record(name="a.r"), record(name="b.r")),
    (record(name="new", aliases=["old"]), record(name="old")),
    (record(name="r"), {**record(name="r"), "type": "error"}),
]
CANNOT = [
    (WITHOUT_DEFAULT, ONE, "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (ONE, NULLABLE, "TYPE_MISMATCH"),
    (NULLABLE, record(field("f1", ["null", "string", "int"])), "MISSING_UNION_BRANCH"),
    ("int", "long", "TYPE_MISMATCH"),
    ("float", "double", "TYPE_MISMATCH"),
    ("int", "boolean", "TYPE_MISMATCH"),
    ("string", fixed(4), "TYPE_MISMATCH"),
    ("int", ["int", "long"], "TYPE_MISMATCH"),
    (["int", "string"], "boolean", "MISSING_UNION_BRANCH"),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "TYPE_MISMATCH"),
    (enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS"),
    (enum("A"), enum("A", name="other"), "NAME_MISMATCH"),
    (fixed(4), fixed(8), "FIXED_SIZE_MISMATCH"),
    (LINKED, LINKED_LONG, "TYPE_MISMATCH"),
    (LINKED_TEXT, LINKED, "TYPE_MISMATCH"),
    (record(name="new"), record(name="old"), "NAME_MISMATCH"),
]


def problems(reader: Any, writer: Any) -> list[str]:
    return list(parse_avro(json.dumps(reader)).problems_reading(parse_avro(json.dumps(writer))))


@pytest.mark.parametrize("reader, writer", CAN)
def test_reader_can_read(reader: Any, writer: Any) -> None:
    assert problems(reader, writer) == []


@pytest.mark.parametrize("reader, writer, kind", CANNOT)
def test_reader_cannot_read(reader: Any, writer: Any, kind: str) -> None:
    assert kind in problems(reader, writer)[0]


@pytest.mark.parametrize("reader, writer", [*CAN, *((reader, writer) for reader, writer, _ in CANNOT)])
def test_avros_own_checker_agrees(reader: Any, writer: Any) -> None:
    avro = pytest.importorskip("avro.compatibility", reason="the group `registry` has Avro's own library")
    parse = pytest.importorskip("avro.schema").parse
    if "error" in json.dumps(writer):
        pytest.skip("the library has no errors outside protocols")
    checker = avro.ReaderWriterCompatibilityChecker()
    checked = checker.get_compatibility(parse(json.dumps(reader)), parse(json.dumps(writer)))
    can_read = checked.compatibility is avro.SchemaCompatibilityType.compatible
    assert can_read == (not problems(reader, writer))


def test_a_problem_has_its_path() -> None:
    inner = [record(field("x", each), name="inner") for each in ("int", "string")]
    old, new = (record(field("a", "int"), field("b", {"type": "array", "items": each})) for each in inner)
    assert "path:'/fields/1/type/items/fields/0/type'" in problems(new, old)[0]


def test_a_failed_assumption_leaves_no_wrong_result() -> None:
    # The reader's first branch fits only while its own end is not looked at yet.
    old = record(field("next", ["null", "r"]), field("end", "string"))
    other = record(field("next", ["null", "r"]), field("end", "int"))
    assert problems([other, record(field("next", ["null", "q.r"]), name="q.r")], [old]) == []
    assert problems([other], [old])


def test_a_too_complex_schema_is_refused() -> None:
    chain = [record(name="r0"), *(record(field("f", f"r{n}"), name=f"r{n + 1}") for n in range(3_000))]
    with pytest.raises(InvalidSchema, match=r"too (deeply|complex)"):
        problems(chain, chain)


def test_shared_types_are_checked_once() -> None:
    def doubled(leaf: str) -> list[Any]:
        chain = [record(field("f", leaf), name="r0")]
        return [
            *chain,
            *(record(field("a", f"r{n}"), field("b", f"r{n}"), name=f"r{n + 1}") for n in range(60)),
        ]

    assert problems(doubled("long"), doubled("int")) == []
    assert 0 < len(problems(doubled("int"), doubled("string"))) <= 20
