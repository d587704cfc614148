"""What the registry decides, asked by its paths, with a log that is a list."""

import json
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from kohort.registry.errors import RegistryError
from kohort.registry.records import Record, SchemaKey, SchemaValue
from kohort.registry.routes import Call, Routes
from kohort.registry.state import State, replayed
from kohort.registry.views import Text


class Registry:
    """A registry whose log is a list: what is decided is written at once."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.state = State()
        self.routes = Routes(self.state)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        path, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        decision = self.routes.answer(Call(method, path.encode(), query.encode(), content))
        for each in decision.records:
            self.state.apply(each)
        self.records += decision.records
        answer = decision.answer
        return str(answer) if isinstance(answer, Text) else msgspec.json.decode(msgspec.json.encode(answer))

    def refusal(self, method: str, path: str, body: Any = None) -> int:
        with pytest.raises(RegistryError) as caught:
            self.ask(method, path, body)
        assert caught.value.status == int(str(caught.value.code)[:3])
        return caught.value.code

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        found = self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", new(schema, **more))
        assert isinstance(found["id"], int)
        return found["id"]


def new(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), **more}


def record(*names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = [{"name": each, "type": "string"} for each in names]
    more = [{"name": each, "type": "string", "default": ""} for each in optional]
    return {"type": "record", "name": "R", "fields": fields + more}


@pytest.fixture
def registry() -> Registry:
    return Registry()


# -- registering and looking up ---------------------------------------------------------------------------


def test_a_schema_has_one_id_and_each_subject_has_its_own_versions(registry: Registry) -> None:
    assert registry.register("a", record("x")) == 1
    assert registry.register("a", record("x")) == 1
    assert registry.register("b", record("x")) == 1
    assert registry.register("a", record("x", optional=("y",))) == 2
    assert registry.ask("GET", "/subjects") == ["a", "b"]
    assert registry.ask("GET", "/subjects/a/versions") == [1, 2]
    assert registry.ask("GET", "/schemas/ids/1/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "b", "version": 1},
    ]
    assert registry.ask("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    assert registry.ask("GET", "/schemas/ids/1?fetchMaxId=true")["maxId"] == 2
    assert json.loads(registry.ask("GET", "/schemas/ids/1/schema")) == record("x")
    assert registry.ask("GET", "/subjects/a/versions/latest")["version"] == 2
    assert registry.ask("GET", "/subjects/a/versions/-1")["id"] == 2
    assert registry.ask("GET", "/subjects/a/versions/1/schema") == registry.ask(
        "GET", "/schemas/ids/1/schema"
    )
    assert registry.ask("POST", "/subjects/a", new(record("x")))["version"] == 1
    assert [each["version"] for each in registry.ask("GET", "/schemas")] == [1, 2, 1]
    assert [each["version"] for each in registry.ask("GET", "/schemas?latestOnly=true")] == [2, 1]
    assert registry.ask("GET", "/subjects/a/versions?offset=1&limit=1") == [2]


def test_names_with_slashes_and_spaces_are_names(registry: Registry) -> None:
    registry.register("a/b c?d", record("x"))
    assert registry.ask("GET", "/subjects") == ["a/b c?d"]
    assert registry.ask("GET", "/subjects/a%2Fb%20c%3Fd/versions/1")["subject"] == "a/b c?d"


def test_a_path_that_names_nothing_is_refused(registry: Registry) -> None:
    assert registry.refusal("POST", "/subjects/%ff/versions", new("int")) == 400
    assert registry.refusal("POST", "/contexts/a:b/subjects/s/versions", new("int")) == 42208
    assert registry.ask("GET", "/subjects") == []


def test_refusals_have_confluents_codes(registry: Registry) -> None:
    registry.register("a", record("x"))
    for code, method, path, body in [
        (40401, "GET", "/subjects/none/versions", None),
        (40401, "GET", "/subjects/none/versions/1", None),
        (40401, "GET", "/subjects/none/versions/latest", None),
        (40401, "DELETE", "/subjects/none", None),
        (40401, "DELETE", "/subjects/none/versions/1", None),
        (40401, "POST", "/subjects/none", new("string")),
        (40402, "GET", "/subjects/a/versions/9", None),
        (40402, "DELETE", "/subjects/a/versions/9", None),
        (40402, "POST", "/compatibility/subjects/a/versions/9", new("string")),
        (40403, "GET", "/schemas/ids/9", None),
        (40403, "POST", "/subjects/a", new("string")),
        (40408, "GET", "/config/a", None),
        (40409, "GET", "/mode/a", None),
        (42201, "POST", "/subjects/a/versions", {"schema": "nothing"}),
        (42201, "POST", "/subjects/a/versions", {"schema": ""}),
        (42201, "POST", "/subjects/a/versions", {}),
        (42201, "POST", "/subjects/a/versions", {"schema": "{}", "schemaType": "OTHER"}),
        (42202, "GET", "/subjects/a/versions/0", None),
        (42202, "GET", "/subjects/a/versions/first", None),
        (42202, "GET", f"/subjects/a/versions/{2**31}", None),
        (42203, "PUT", "/config", {"compatibility": "SOME"}),
        (42204, "PUT", "/mode", {"mode": "SOME"}),
        (42208, "POST", "/subjects/__GLOBAL/versions", new("string")),
        (409, "POST", "/subjects/a/versions", new(record("x", "y"))),
        (400, "POST", "/subjects/a/versions", None),
        (422, "POST", "/subjects/a/versions", {"schema": 7}),
        (404, "GET", "/other", None),
        (405, "PATCH", "/subjects", None),
    ]:
        assert registry.refusal(method, path, body) == code, (method, path, body)


# -- compatibility ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "level, fits, fits_not",
    [
        ("BACKWARD", record("a", "b"), record("a", "b", "c")),
        ("BACKWARD_TRANSITIVE", record("a", optional=("b",)), record("a", "b")),
        ("FORWARD", record("a", "b", "c"), record("b")),
        ("FORWARD_TRANSITIVE", record("a", "b", "c"), record("b")),
        ("FULL", record("a", "b"), record("a", "b", "c")),
        ("FULL_TRANSITIVE", record("a", optional=("b",)), record("a", "b")),
    ],
)
def test_a_compatibility_level_selects_the_versions_to_check(
    registry: Registry, level: str, fits: Any, fits_not: Any
) -> None:
    registry.ask("PUT", "/config/s", {"compatibility": level})
    registry.register("s", record("a"))
    registry.register("s", record("a", optional=("b",)))
    assert registry.refusal("POST", "/subjects/s/versions", new(fits_not)) == 409
    path = "/compatibility/subjects/s/versions?verbose=true"
    assert registry.ask("POST", path, new(fits_not))["messages"]
    assert registry.ask("POST", path, new(fits)) == {"is_compatible": True, "messages": []}
    registry.register("s", fits)


def test_without_a_compatibility_level_every_schema_is_accepted(registry: Registry) -> None:
    registry.ask("PUT", "/config", {"compatibility": "none"})
    registry.register("s", "string")
    assert registry.register("s", "int") == 2
    answer = registry.ask("POST", "/compatibility/subjects/s/versions/1", new("boolean"))
    assert answer == {"is_compatible": True}


def test_the_level_of_the_subject_overrides_its_context_and_the_global_one(registry: Registry) -> None:
    assert registry.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    registry.ask("PUT", "/config", {"compatibility": "FULL"})
    registry.ask("PUT", "/config/:.c:", {"compatibility": "FORWARD"})
    assert registry.ask("PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    level = "compatibilityLevel"
    assert registry.ask("GET", "/config/s")[level] == "NONE"
    assert registry.ask("GET", "/config/:.c:s?defaultToGlobal=true")[level] == "FORWARD"
    assert registry.ask("GET", "/config/t?defaultToGlobal=true")[level] == "FULL"
    assert registry.ask("DELETE", "/config/s") == {level: "NONE"}
    assert registry.refusal("GET", "/config/s") == 40408


# -- deleting ---------------------------------------------------------------------------------------------


def test_a_version_is_deleted_softly_and_then_for_good(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.register("s", record("a", optional=("b",)))
    assert registry.refusal("DELETE", "/subjects/s/versions/1?permanent=true") == 40407
    assert registry.ask("DELETE", "/subjects/s/versions/1") == 1
    assert registry.refusal("DELETE", "/subjects/s/versions/1") == 40406
    assert registry.ask("GET", "/subjects/s/versions") == [2]
    assert registry.ask("GET", "/subjects/s/versions?deleted=true") == [1, 2]
    assert registry.ask("GET", "/subjects/s/versions?deletedOnly=true") == [1]
    assert registry.refusal("GET", "/subjects/s/versions/1") == 40402
    assert registry.ask("GET", "/subjects/s/versions/1?deleted=true")["deleted"] is True
    assert registry.ask("GET", "/schemas/ids/1")["schema"], "data that has the id is still read"
    assert registry.ask("DELETE", "/subjects/s/versions/1?permanent=true") == 1
    assert registry.refusal("GET", "/schemas/ids/1") == 40403
    assert registry.register("s", record("a", optional=("c",))) == 3, "ids are not given twice"


def test_a_subject_is_deleted_with_its_settings(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.ask("PUT", "/config/s", {"compatibility": "NONE"})
    registry.register("s", record("b"))
    assert registry.refusal("DELETE", "/subjects/s?permanent=true") == 40405
    assert registry.ask("DELETE", "/subjects/s") == [1, 2]
    assert registry.refusal("DELETE", "/subjects/s") == 40404
    assert registry.ask("GET", "/subjects") == []
    assert registry.ask("GET", "/subjects?deleted=true") == ["s"]
    assert registry.ask("GET", "/subjects?deletedOnly=true") == ["s"]
    assert registry.refusal("GET", "/config/s") == 40408
    assert registry.ask("DELETE", "/subjects/s?permanent=true") == [1, 2]
    assert registry.ask("GET", "/subjects?deleted=true") == []


def test_a_deleted_schema_that_is_registered_again_has_its_id_and_a_new_version(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.ask("DELETE", "/subjects/s")
    assert registry.register("s", record("a")) == 1
    assert registry.ask("GET", "/subjects/s/versions?deleted=true") == [2]


# -- references -------------------------------------------------------------------------------------------


def test_a_referenced_schema_is_listed_and_cannot_be_deleted(registry: Registry) -> None:
    registry.register("address", {"type": "record", "name": "x.Address", "fields": []})
    user = {"type": "record", "name": "User", "fields": [{"name": "a", "type": "x.Address"}]}
    reference = {"name": "x.Address", "subject": "address", "version": 1}
    assert registry.refusal("POST", "/subjects/user/versions", new(user)) == 42201
    wrong = [{**reference, "version": 2}]
    assert registry.refusal("POST", "/subjects/user/versions", new(user, references=wrong)) == 42201
    assert registry.register("user", user, references=[reference]) == 2
    assert registry.ask("GET", "/schemas/ids/2")["references"] == [reference]
    assert registry.ask("GET", "/subjects/address/versions/1/referencedby") == [2]
    assert registry.refusal("DELETE", "/subjects/address/versions/1") == 42206
    assert registry.refusal("DELETE", "/subjects/address") == 42206
    registry.ask("DELETE", "/subjects/user")
    assert registry.ask("DELETE", "/subjects/address") == [1]
    assert registry.refusal("DELETE", "/subjects/address?permanent=true") == 42206
    registry.ask("DELETE", "/subjects/user?permanent=true")
    registry.ask("DELETE", "/subjects/address?permanent=true")


def test_a_schema_that_two_schemas_refer_to_is_read_once(registry: Registry) -> None:
    registry.register("a", {"type": "record", "name": "A", "fields": []})
    of_a = [{"name": "A", "subject": "a", "version": 1}]
    for name in "BC":
        schema = {"type": "record", "name": name, "fields": [{"name": "a", "type": "A"}]}
        registry.register(name, schema, references=of_a)
    both = [{"name": each, "subject": each, "version": 1} for each in "BC"]
    schema = {"type": "record", "name": "D", "fields": [{"name": each, "type": each} for each in "BCA"]}
    assert registry.register("D", schema, references=[*both, *of_a]) == 4


# -- modes and contexts -----------------------------------------------------------------------------------


def test_a_read_only_subject_is_readable_and_refuses_changes(registry: Registry) -> None:
    registry.register("s", record("a"))
    assert registry.ask("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert registry.register("s", record("a")) == 1
    assert registry.refusal("POST", "/subjects/s/versions", new(record("a", optional=("b",)))) == 42205
    assert registry.refusal("DELETE", "/subjects/s") == 42205
    assert registry.refusal("PUT", "/config/s", {"compatibility": "NONE"}) == 42205
    registry.ask("PUT", "/config", {"compatibility": "FULL"})
    assert registry.ask("DELETE", "/mode/s") == {"mode": "READONLY"}
    registry.register("s", record("a", optional=("b",)))
    registry.ask("PUT", "/config/s", {"compatibility": "NONE"})
    registry.ask("PUT", "/mode", {"mode": "READONLY"})
    for path in ("/config", "/config/s"):
        assert registry.refusal("PUT", path, {"compatibility": "FORWARD"}) == 42205
        assert registry.refusal("DELETE", path) == 42205


def test_ids_are_unique_within_a_context(registry: Registry) -> None:
    registry.register("s", "string")
    assert registry.register(":.c:s", "int") == 1
    assert registry.ask("GET", "/contexts") == [".", ".c"]
    assert registry.ask("GET", "/schemas/ids/1")["schema"] == '"string"'
    assert registry.ask("GET", "/schemas/ids/1?subject=:.c:s")["schema"] == '"int"'
    assert registry.ask("GET", "/schemas/ids/1?subject=:.c:")["schema"] == '"int"'
    assert registry.ask("GET", "/contexts/:.c:/schemas/ids/1")["schema"] == '"int"'
    assert registry.ask("GET", "/contexts/.c/subjects") == [":.c:s"]
    assert registry.ask("GET", "/contexts/.c/subjects/s/versions/1")["subject"] == ":.c:s"
    assert registry.ask("GET", "/subjects?subjectPrefix=:.c:") == [":.c:s"]
    assert registry.ask("GET", "/subjects/:.:s/versions/1")["subject"] == "s"
    assert registry.register(":.c:other", "long") == 2
    assert registry.ask("GET", "/schemas/ids/2?subject=other")["schema"] == '"long"', "found in its context"


def test_metadata_and_rules_are_stored_and_create_versions(registry: Registry) -> None:
    metadata = {"properties": {"owner": "me"}}
    registry.register("s", "string")
    assert registry.register("s", "string", metadata=metadata) == 2
    assert registry.ask("GET", "/subjects/s/versions/2")["metadata"] == metadata
    found = registry.ask("GET", "/subjects/s/metadata?key=owner&value=me")
    assert found["version"] == 2
    assert registry.refusal("GET", "/subjects/s/metadata?key=owner&value=you") == 40403


# -- the log ----------------------------------------------------------------------------------------------


def test_a_reader_of_the_log_has_the_same_state(registry: Registry) -> None:
    for number in range(5):
        registry.register("s", record("a", optional=tuple(f"o{each}" for each in range(number))))
    registry.register(":.c:s", "string")
    registry.ask("PUT", "/config/s", {"compatibility": "NONE"})
    registry.ask("PUT", "/mode/t", {"mode": "READONLY"})
    registry.ask("DELETE", "/subjects/s/versions/2")
    registry.ask("DELETE", "/subjects/s/versions/2?permanent=true")
    registry.ask("DELETE", "/subjects/:.c:s")
    again = replayed(registry.records)
    compacted = replayed({each.key: each for each in registry.records}.values())
    for state in (again, compacted):
        assert state.subjects == registry.state.subjects
        assert (state.levels, state.modes) == (registry.state.levels, registry.state.modes)
    assert again.newest_id() == registry.state.newest_id()


# -- texts that would keep later versions out -------------------------------------------------------------

BEYOND = [
    ("AVRO", '{"type":"record","name":"R","fields":[{"name":"x","type":"double","default":1e999}]}'),
    ("AVRO", '{"type":"string","limit":[-1e999]}'),
    ("AVRO", '{"type":"record","name":"R","doc":"\\ud800","fields":[]}'),
    ("AVRO", '{"type":"string","\\udfff":1}'),
    ("JSON", '{"maximum":1e999}'),
    ("JSON", '{"enum":[{"a":-1.5e400}]}'),
    ("JSON", '{"type":"string","title":"\\ud800"}'),
    ("JSON", '{"type":"string","examples":["\\udc00\\ud800"]}'),
    ("PROTOBUF", 'syntax = "proto3"; // \ud800\nmessage A {}'),
]
LOOPS = [
    '{"$ref":"#"}',
    '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}',
    '{"properties":{"x":{"$ref":"#/properties/x"}}}',
    '{"items":{"$ref":"#/definitions/a"},"definitions":{"a":{"$ref":"#/definitions/a"}}}',
    '{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#","title":"x"}',
    '{"properties":{"x":{"$ref":"#/enum/0"}},"enum":[1]}',
    '{"title":"x","items":{"$ref":"#/title"}}',
]
NO_SCHEMAS = [
    '{"$schema":["a"]}',
    '{"$schema":{}}',
    '{"$schema":5}',
    '{"$schema":"http://[x"}',
    '{"$id":"http://[x"}',
    '{"$id":"http://[x","items":{"$ref":"y"}}',
    '{"$id":"http://a/","properties":{"a":{"$id":"http://[x"}}}',
    '{"items":{"$ref":"http://[x"}}',
    '{"items":{"$ref":"#/b"},"b":{"type":5}}',
    '{"items":{"$ref":"#/$defs/b"},"$defs":{"b":{"properties":[]}}}',
    '{"items":{"$ref":"#x"},"b":{"$anchor":"x","enum":[],"required":1}}',
]


@pytest.mark.parametrize("kind, text", [*BEYOND, *(("JSON", each) for each in LOOPS + NO_SCHEMAS)])
def test_a_schema_that_could_not_be_read_again_is_refused(registry: Registry, kind: str, text: str) -> None:
    body = {"schema": text, "schemaType": kind}
    assert registry.refusal("POST", "/subjects/a/versions", body) in (400, 42201)
    assert registry.refusal("POST", "/compatibility/subjects/a/versions", body) in (400, 42201)
    assert registry.records == []


def test_large_non_ascii_and_recursive_schemas_are_accepted(registry: Registry) -> None:
    pytest.importorskip("jsonschema", reason="the extra `registry` has jsonschema")
    for subject, kind, text in [
        ("a", "AVRO", '{"type":"string","doc":"\\ud83d\\ude00","limit":1.5e300}'),
        ("b", "JSON", '{"type":"string","title":"\\ud83d\\ude00","maximum":1e300}'),
        ("c", "JSON", '{"properties":{"next":{"$ref":"#"}}}'),
        ("d", "JSON", '{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"$ref":"#/$defs/b"},"b":true}}'),
    ]:
        path = f"/subjects/{subject}/versions"
        first = registry.ask("POST", path, {"schema": text, "schemaType": kind})
        shown = registry.ask("GET", f"{path}/1")
        again = registry.ask("POST", path, {"schema": shown["schema"], "schemaType": kind})
        assert again == first
        assert "\\u" not in shown["schema"]
        assert registry.ask("POST", f"/compatibility{path}", {"schema": text, "schemaType": kind}) == {
            "is_compatible": True
        }


@pytest.mark.parametrize(
    "metadata",
    [{"properties": [1]}, {"properties": "x"}, {"tags": []}, {"tags": {"a": "b"}}, {"sensitive": {}}],
)
def test_metadata_of_another_form_are_refused(registry: Registry, metadata: dict[str, Any]) -> None:
    assert registry.refusal("POST", "/subjects/a/versions", new("string", metadata=metadata)) == 422
    assert registry.records == []


@pytest.mark.parametrize("name", ["metadata", "ruleSet"])
def test_metadata_and_rules_have_a_limit_of_levels(registry: Registry, name: str) -> None:
    def nested(levels: int) -> dict[str, Any]:
        found: Any = 1
        for _ in range(levels):
            found = [found]
        return {"properties": {"a": found}}

    assert registry.refusal("POST", "/subjects/a/versions", new("string", **{name: nested(100)})) == 422
    assert registry.register("a", "string", **{name: nested(90)}) == 1


def test_metadata_that_somebody_has_written_otherwise_have_no_properties(registry: Registry) -> None:
    registry.register("a", "string")
    registry.state.apply(
        Record(SchemaKey("a", 1), SchemaValue("a", 1, 1, "{}", metadata={"properties": [1]}))
    )
    assert registry.refusal("GET", "/subjects/a/metadata?key=x&value=y") == 40403


# -- numbers, levels and an overriding mode -----------------------------------------------------------------


def test_a_global_read_only_override_precedes_subject_modes(registry: Registry) -> None:
    registry.register("a", "string")
    registry.register(":.c:a", "string")
    for subject in ("a", "b", ":.c:", "d"):
        registry.ask("PUT", f"/mode/{subject}", {"mode": "IMPORT" if subject == "d" else "READWRITE"})
    registry.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    for subject in ("a", "b", ":.c:a"):
        assert registry.refusal("POST", f"/subjects/{subject}/versions", new("int")) == 42205
    assert registry.refusal("POST", "/subjects/d/versions", new("int", id=9)) == 42205
    assert registry.refusal("DELETE", "/subjects/a") == 42205
    assert registry.refusal("DELETE", "/subjects/a/versions/1") == 42205
    assert registry.ask("GET", "/mode/a") == {"mode": "READONLY_OVERRIDE"}
    registry.ask("PUT", "/mode", {"mode": "READONLY"})
    assert registry.ask("GET", "/mode/a") == {"mode": "READWRITE"}
    registry.register("b", "int")


@pytest.mark.parametrize("text", ["1_0", "_1", "1.", "0", "-2", "%EF%BC%91", "%C2%B2", "1e0", "1" * 5000])
def test_a_text_that_is_no_number_is_no_version_or_id(registry: Registry, text: str) -> None:
    for _ in range(2):
        registry.register("a", "string")
    assert registry.refusal("GET", f"/subjects/a/versions/{text}") == 42202
    assert registry.refusal("GET", f"/schemas/ids/{text}") in (404, 40403)
    if text not in ("0", "-2"):
        assert registry.refusal("GET", f"/subjects?limit={text}") == 400


@pytest.mark.parametrize(
    "body", [{"compatibility": ""}, {"compatibilityLevel": ""}, {"compatibility": " FULL"}]
)
def test_an_empty_level_is_refused(registry: Registry, body: dict[str, str]) -> None:
    for path in ("/config", "/config/a"):
        assert registry.refusal("PUT", path, body) == 42203
    assert registry.records == []
