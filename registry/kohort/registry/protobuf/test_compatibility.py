import pytest

from kohort.registry.errors import InvalidSchema

pytest.importorskip("proto_schema_parser", reason="the extra `registry` has proto-schema-parser")

from kohort.registry.protobuf.schema import ProtobufSchema, parse_protobuf

ONE = "message M { string a = 1; }"


def schema(body: str, syntax: str = "proto3") -> ProtobufSchema:
    return parse_protobuf(f'syntax = "{syntax}"; {body}')


CAN = [  # What a reader has, and what a writer had.
    (ONE, ONE),
    ("message M { string a = 1; int32 b = 2; }", ONE),
    (ONE, "message M { string a = 1; int32 b = 2; }"),
    ("message M { string other = 1; }", ONE),
    ("message M { bytes a = 1; }", ONE),
    ("message M { repeated string a = 1; }", ONE),
    ("message M { bool a = 1; }", "message M { uint64 a = 1; }"),
    ("message M { E a = 1; } enum E { A = 0; }", "message M { int32 a = 1; }"),
    ("message M { sfixed64 a = 1; }", "message M { fixed64 a = 1; }"),
    (f"{ONE} message N {{}}", ONE),
    (f"enum E {{ A = 0; B = 1; }} {ONE}", f"enum E {{ A = 0; C = 2; }} {ONE}"),
    ("message M { oneof o { string a = 1; int32 b = 2; } }", ONE),
    ("message M { string a = 1; }", "message M { oneof o { string a = 1; } }"),
    (ONE, "message M { string a = 1; oneof o { int32 b = 2; int32 c = 3; } }"),
    ("message M { optional int32 a = 1; }", "message M { int32 a = 1; }"),
    ("message M { map<string, int64> a = 1; }", "message M { map<string, int32> a = 1; }"),
    ("message M { M a = 1; int32 b = 2; }", "message M { M a = 1; }"),
]
CANNOT = [
    ("message N {}", "message M {}", "MESSAGE_REMOVED"),
    ("message M {}", "message M { message N {} }", "MESSAGE_REMOVED"),
    (f"package q; {ONE}", f"package p; {ONE}", "PACKAGE_CHANGED"),
    ("message M { int32 a = 1; }", ONE, "FIELD_SCALAR_KIND_CHANGED"),
    ("message M { sint32 a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
    ("message M { double a = 1; }", "message M { float a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
    ("message M { M a = 1; }", ONE, "FIELD_KIND_CHANGED"),
    ("message M { map<string, string> a = 1; }", ONE, "FIELD_KIND_CHANGED"),
    ("message M { map<bool, string> a = 1; }", "message M { map<bool, int32> a = 1; }", "SCALAR_KIND"),
    ("message M { A a = 1; message A {} }", "message M { B a = 1; message A {} message B {} }", "NAMED"),
    ("message M { oneof o { bool a = 1; bool b = 2; } }", "message M { bool a = 1; bool b = 2; }", "MULTI"),
    ("message M { oneof o { bool a = 1; } }", "message M { oneof o { bool a = 1; bool b = 2; } }", "ONEOF"),
]  # fmt: skip
REQUIRED = "message M { required string a = 1; }"


@pytest.mark.parametrize("reader, writer", CAN)
def test_a_compatible_reader_reads_the_writers_data(reader: str, writer: str) -> None:
    assert schema(reader).problems_reading(schema(writer)) == ()


@pytest.mark.parametrize("reader, writer, kind", CANNOT)
def test_reader_does_not_bear_it(reader: str, writer: str, kind: str) -> None:
    assert kind in schema(reader).problems_reading(schema(writer))[0]


@pytest.mark.parametrize(
    "reader, writer, kind",
    [
        (REQUIRED, "message M {}", "REQUIRED_FIELD_ADDED"),
        ("message M {}", REQUIRED, "REQUIRED_FIELD_REMOVED"),
        ("message M { repeated int32 a = 1; }", "message M { optional int32 a = 1; }", "NUMERIC_LABEL"),
    ],
)
def test_proto2_has_required_fields_and_labels(reader: str, writer: str, kind: str) -> None:
    new, old = schema(reader, "proto2"), schema(writer, "proto2")
    assert kind in new.problems_reading(old)[0]


def test_a_message_of_another_file_is_compared_too() -> None:
    def using(kind: str) -> ProtobufSchema:
        text = 'syntax = "proto3"; import "n.proto"; message M { N n = 1; }'
        return parse_protobuf(text, [("n.proto", f'syntax = "proto3"; message N {{ {kind} a = 1; }}')])

    assert using("int64").problems_reading(using("int32")) == ()
    assert "SCALAR_KIND" in using("string").problems_reading(using("int32"))[0]


def test_many_messages_are_cheap() -> None:
    def text(kind: str) -> str:
        messages = (f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(60))
        return "\n".join([*messages, f"message M60 {{ {kind} a = 1; }}"])

    assert schema(text("int64")).problems_reading(schema(text("int32"))) == ()
    assert 0 < len(schema(text("string")).problems_reading(schema(text("int32")))) <= 20


def test_a_chain_that_is_too_long_is_refused_or_compared() -> None:
    text = "\n".join([*(f"message M{n} {{ M{n + 1} a = 1; }}" for n in range(1_500)), "message M1500 {}"])
    with pytest.raises(InvalidSchema, match="too deeply"):
        schema(text).problems_reading(schema(text))
