"""The mode IMPORT, in which a schema brings its id and its version, and what it must not break."""

import pytest

from kohort.registry.records import Record, Reference, SchemaKey, SchemaValue
from kohort.registry.test_decisions import Registry, new, record


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_import_mode_accepts_ids_and_versions(registry: Registry) -> None:
    assert registry.refusal("POST", "/subjects/s/versions", new("string", id=70, version=7)) == 42205
    registry.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert registry.register("s", "string", id=70, version=7) == 70
    assert registry.register("t", "string", id=70, version=1) == 70
    assert registry.refusal("POST", "/subjects/s/versions", new("int", id=70, version=8)) == 42205
    assert registry.refusal("POST", "/subjects/s/versions", new("int")) == 42205
    assert registry.register("s", "int", id=71, version=9) == 71, "nothing is checked"
    assert registry.ask("GET", "/subjects/s/versions") == [7, 9]
    registry.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.refusal("PUT", "/mode", {"mode": "IMPORT"}) == 42205
    assert registry.ask("PUT", "/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}


def test_a_schema_imported_twice_exists_once(registry: Registry) -> None:
    registry.ask("PUT", "/mode/a", {"mode": "IMPORT"})
    path = "/subjects/a/versions"
    first = registry.ask("POST", path, new("string", id=7))
    assert first == {"id": 7, "version": 1}
    assert registry.ask("POST", path, new("string", id=7)) == first
    assert registry.ask("POST", path, new("string", id=7, version=1)) == first
    assert registry.ask("GET", path) == [1]
    assert registry.ask("POST", path, new("string", id=7, version=3)) == {"id": 7, "version": 3}
    assert registry.ask("POST", path, new("string", id=8)) == {"id": 8, "version": 4}
    assert registry.ask("GET", path) == [1, 3, 4]


def test_an_import_replaces_no_schema_that_others_need(registry: Registry) -> None:
    registry.ask("PUT", "/mode", {"mode": "IMPORT"})
    registry.register("a", record("x"), id=1, version=1)
    of_a = [{"name": "R", "subject": "a", "version": 1}]
    user = {"type": "record", "name": "U", "fields": [{"name": "r", "type": "R"}]}
    registry.register("b", user, id=2, version=1, references=of_a)
    other = new({**record("y"), "name": "Other"}, id=3, version=1)
    assert registry.refusal("POST", "/subjects/a/versions", other) == 42206
    registry.register("a", record("x"), id=4, version=1)  # The same schema under another id.
    assert registry.ask("GET", "/schemas/ids/4/versions") == [{"subject": "a", "version": 1}]
    registry.ask("DELETE", "/subjects/b/versions/1")
    assert registry.refusal("POST", "/subjects/a/versions", other) == 42206
    registry.ask("DELETE", "/subjects/b/versions/1?permanent=true")
    assert registry.ask("POST", "/subjects/a/versions", other) == {"id": 3, "version": 1}


@pytest.mark.parametrize("version", [1, -1])
def test_no_import_refers_to_the_version_that_it_replaces(registry: Registry, version: int) -> None:
    registry.ask("PUT", "/mode", {"mode": "IMPORT"})
    path = "/subjects/a/versions"
    registry.register("a", {"type": "object"}, id=1, version=1, schemaType="JSON")
    itself = [{"name": "a.json", "subject": "a", "version": version}]
    body = new({"$ref": "a.json"}, id=2, version=1, schemaType="JSON", references=itself)
    assert registry.refusal("POST", path, body) == 42201
    assert registry.ask("POST", path, {**body, "version": 2}) == {"id": 2, "version": 2}


def test_a_cycle_of_references_that_is_in_the_log_can_be_deleted(registry: Registry) -> None:
    itself = (Reference("a.json", "a", 1),)
    value = SchemaValue("a", 1, 1, '{"$ref":"a.json"}', "JSON", itself)
    registry.state.apply(Record(SchemaKey("a", 1), value))
    assert registry.ask("GET", "/subjects/a/versions/1/referencedby") == [1]
    assert registry.ask("DELETE", "/subjects/a/versions/1") == 1
    assert registry.ask("DELETE", "/subjects/a/versions/1?permanent=true") == 1


def test_ids_and_versions_fit_into_four_bytes(registry: Registry) -> None:
    largest = 2**31 - 1
    registry.ask("PUT", "/mode", {"mode": "IMPORT"})
    for more in [{"id": largest + 1}, {"id": 1, "version": largest + 1}, {"id": 2**70}]:
        assert registry.refusal("POST", "/subjects/a/versions", new("string", **more)) == 422
    told = registry.ask("POST", "/subjects/a/versions", new("string", id=largest, version=largest))
    assert told == {"id": largest, "version": largest}
    assert registry.refusal("POST", "/subjects/a/versions", new("int", id=5)) == 42205
    registry.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.refusal("POST", "/subjects/b/versions", new("int")) == 42205
    assert registry.ask("POST", "/subjects/b/versions", new("string"))["id"] == largest
