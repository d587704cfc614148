from base64 import b64decode

import pytest

from kohort.registry.errors import InvalidSchema

pytest.importorskip("proto_schema_parser", reason="the extra `registry` has proto-schema-parser")

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kohort.registry.protobuf.schema import parse_protobuf

WHOLE = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "com.shop";
// An order.
message Order {
  reserved 5, 7 to 9, 100 to max;
  reserved "old";
  map<string, int32> counts_by_name = 1 [deprecated = true];
  oneof payment { string card = 2; bytes token = 3 [json_name = "tok"]; }
  enum State { option allow_alias = true; NEW = 0; OPEN = 1; STARTED = 1; reserved 5 to max; }
  repeated State states = 4 [packed = false];
  message Line { google.protobuf.Timestamp at = 1; }
  repeated Line lines = 10;
  optional int32 rank = 11;
  .shop.v1.Order parent = 12;
}
service Orders { rpc Watch (Order) returns (stream Order); }
"""
TWO = """
syntax = "proto2";
message M {
  required string name = 1;
  optional int32 n = 2 [default = -7];
  optional string t = 3 [default = "a\\"b"];
  optional E e = 4 [default = B];
  extensions 100 to 200;
}
enum E { A = 1; B = 2; }
extend M { optional bool more = 100; }
"""


@pytest.mark.parametrize("text", [WHOLE, TWO])
def test_a_text_and_its_descriptor_are_one_schema(text: str) -> None:
    schema = parse_protobuf(text)
    assert schema.canonical == text.strip(), "a text is kept as it is"
    again = parse_protobuf(schema.serialized)
    assert again.canonical == again.normalized == schema.normalized
    assert parse_protobuf(again.canonical).normalized == again.canonical
    assert parse_protobuf(again.canonical).serialized == schema.serialized


def test_the_text_of_a_descriptor_has_everything() -> None:
    found = parse_protobuf(parse_protobuf(WHOLE).serialized).canonical
    for part in (
        "package shop.v1;",
        'import "google/protobuf/timestamp.proto";',
        'option java_package = "com.shop";',
        "reserved 5, 7 to 9, 100 to max;",
        "map<string, int32> counts_by_name = 1 [deprecated = true];",
        'bytes token = 3 [json_name = "tok"];',
        "optional int32 rank = 11;",
        "repeated .shop.v1.Order.State states = 4 [packed = false];",
        "rpc Watch (.shop.v1.Order) returns (stream .shop.v1.Order);",
    ):
        assert part in found
    assert (
        'optional string t = 3 [default = "a\\"b"];'
        in parse_protobuf(parse_protobuf(TWO).serialized).canonical
    )


def test_messages_keep_their_numbers_among_the_entries_of_maps() -> None:
    def numbers(text: str) -> list[str]:
        found = FileDescriptorProto.FromString(b64decode(parse_protobuf(text).serialized))
        return [each.name for each in found.message_type[0].nested_type]

    body = "message A {} map<string, A> b = 1; message C {} map<string, C> d = 2;"
    text = f'syntax = "proto3"; message M {{ {body} }}'
    names = ["A", "BEntry", "C", "DEntry"]
    assert numbers(text) == names
    assert numbers(parse_protobuf(text).normalized) == names


def test_imports_are_resolved_by_the_references() -> None:
    user = 'syntax = "proto3"; package shop; import "kind.proto"; message User { Kind kind = 1; }'
    kind = 'syntax = "proto3"; package shop; enum Kind { NONE = 0; }'
    order = 'syntax = "proto3"; import "user.proto"; message Order { shop.User by = 1; }'
    assert parse_protobuf(order, [("kind.proto", kind), ("user.proto", user)])
    with pytest.raises(InvalidSchema, match=r"imports kind\.proto"):
        parse_protobuf(order, [("user.proto", user)])


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("confluent/meta.proto", 'message M { string a = 1 [(confluent.field_meta).doc = "words"]; }'),
        ("confluent/type/decimal.proto", "message M { confluent.type.Decimal price = 1; }"),
        ("confluent/type/variant.proto", "message M { confluent.type.Variant any = 1; }"),
        ("google/type/money.proto", "message M { google.type.Money price = 1; }"),
        ("google/type/date.proto", "message M { google.type.Date day = 1; }"),
        ("google/protobuf/timestamp.proto", "message M { google.protobuf.Timestamp at = 1; }"),
    ],
)
def test_a_file_that_every_registry_knows_needs_no_reference(name: str, body: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; {body}'
    schema = parse_protobuf(text)
    assert schema.canonical == text
    assert parse_protobuf(schema.serialized).normalized == schema.normalized


@pytest.mark.parametrize(
    "body",
    [
        "message {",
        "message M { string a = 1; string b = 1; }",
        "message M { string a = 1; string a = 2; }",
        "message M { string a = 0; }",
        "message M { Unknown a = 1; }",
        "message M { string a = 1 }",
        "message M {} message M {}",
        "message M { required string a = 1; }",
        'import "nothing.proto";',
        'import "google/protobuf/nothing.proto";',
        'import "google/type/nothing.proto";',
        'import "google/api/http.proto";',
        'import "confluent/nothing.proto";',
        'import "google/protobuf/../../os.proto";',
        "message M { string a = 1 [ctype = NOTHING]; }",
    ],
)
def test_an_invalid_schema_is_refused(body: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_protobuf(f'syntax = "proto3"; {body}')


@pytest.mark.parametrize(
    "text", ["AAAA", "abcd====", 'syntax = "proto9";', 'edition = "2023";', "{}", "x" * 99]
)
def test_an_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_protobuf(text)


def test_a_too_large_or_too_deep_schema_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSchema, match="characters"):
        parse_protobuf("// " + "x" * 200_000)
    with pytest.raises(InvalidSchema):
        parse_protobuf('syntax = "proto3";' + "message M {" * 2_000 + "}" * 2_000)
    assert capfd.readouterr() == ("", ""), "the parser's library prints nothing"
