"""Two registries side by side: the same requests, and where the answers differ.

    python -m tests.registry.compare http://127.0.0.1:8081 http://127.0.0.1:18081

Both have to be empty. The second one is Karapace or Confluent's registry. The words of errors and the
version in the answer to a registration are not compared. Ids may differ, as long as one schema's id is always
the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.registry.asking import Told, ask


class Sent(NamedTuple):
    """A request."""

    method: str
    path: str
    body: Any = None


def record(name: str, *fields: tuple[str, Any] | tuple[str, Any, Any]) -> dict[str, Any]:
    """Return a record of Avro; a field is a name, a type and perhaps a default."""
    found = [
        {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})}
        for each in fields
    ]
    return {"type": "record", "name": name, "fields": found}


OBJECT = {"type": "object"}
AVRO_CHANGES: list[tuple[Any, Any]] = [
    (record("R", ("a", "int")), record("R", ("a", "int"), ("b", "string", "x"))),
    (record("R", ("a", "int")), record("R", ("a", "int"), ("b", "string"))),
    (record("R", ("a", "int"), ("b", "int")), record("R", ("a", "int"))),
    (record("R", ("a", "int")), record("R", ("a", "long"))),
    (record("R", ("a", "long")), record("R", ("a", "int"))),
    (record("R", ("a", "string")), record("R", ("a", "bytes"))),
    (record("R", ("a", ["null", "int"])), record("R", ("a", "int"))),
    (record("R", ("a", "int")), record("R", ("a", ["null", "int"]))),
    (record("R", ("a", "int")), record("S", ("a", "int"))),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]}),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
    ),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}),
    ("int", "double"),
    ("double", "int"),
]  # fmt: skip
JSON_CHANGES: list[tuple[Any, Any]] = [
    ({**OBJECT, "properties": {"a": {"type": "string"}}}, {**OBJECT, "properties": {}}),
    ({**OBJECT, "properties": {}}, {**OBJECT, "properties": {"a": {"type": "string"}}}),
    (
        {**OBJECT, "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {**OBJECT, "properties": {"a": {"type": "string"}, "b": {}}, "additionalProperties": False},
    ),
    ({**OBJECT, "properties": {"a": {}}}, {**OBJECT, "properties": {"a": {}}, "required": ["a"]}),
    ({"type": "string"}, {"type": "string", "maxLength": 3}),
    ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5}),
    ({"type": "integer"}, {"type": "number"}),
    ({"type": "number"}, {"type": "integer"}),
    ({"type": "number", "minimum": 1}, {"type": "number", "minimum": 0}),
    ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "number"}}),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}),
    ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    ({"type": "string"}, {"type": "string", "pattern": "^a"}),
]
NO_AVRO = [
    {"type": "record"},
    "nothing",
    {"type": "enum", "name": "E", "symbols": []},
    record("R", ("a", "X")),
]
LEVELS = ("BACKWARD", "FORWARD", "FULL")


def registering(subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> Sent:
    """Return the registration of a schema."""
    text = schema if kind == "PROTOBUF" else json.dumps(schema)
    return Sent("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind, **more})


def requests() -> Iterator[Sent]:
    """Yield all requests, in order."""
    yield from _reads("none")
    yield from _life("life")
    yield from _changes("avro", AVRO_CHANGES, "AVRO")
    yield from _changes("json", JSON_CHANGES, "JSON")
    for number, each in enumerate(NO_AVRO):
        yield registering(f"wrong{number}", each)
        yield Sent("GET", f"/subjects/wrong{number}/versions")
    yield from _settings("set")
    yield from _references("ref")
    yield from _invalid()


def _reads(subject: str) -> Iterator[Sent]:
    yield Sent("GET", f"/subjects/{subject}/versions")
    for version in ("1", "latest", "-1", "0", "x", "2147483648"):
        yield Sent("GET", f"/subjects/{subject}/versions/{version}")
    yield Sent("GET", f"/subjects/{subject}/versions/1/schema")
    yield Sent("GET", f"/subjects/{subject}/versions/1/referencedby")
    yield Sent("GET", f"/config/{subject}")
    yield Sent("GET", f"/mode/{subject}")


def _life(subject: str) -> Iterator[Sent]:
    old, new = record("L", ("a", "int")), record("L", ("a", "int"), ("b", "int", 0))
    yield registering(subject, old)
    yield registering(subject, old)
    yield registering(f"other-{subject}", old)
    yield registering(subject, new)
    yield from _reads(subject)
    for each in (old, new, record("M")):
        yield Sent("POST", f"/subjects/{subject}", {"schema": json.dumps(each)})
        yield Sent("POST", f"/compatibility/subjects/{subject}/versions/latest", {"schema": json.dumps(each)})
    for schema_id in ("1", "2", "99999", "0"):
        for suffix in ("", "/versions", "/schema"):
            yield Sent("GET", f"/schemas/ids/{schema_id}{suffix}")
    yield Sent("GET", "/schemas/types")
    yield Sent("DELETE", f"/subjects/{subject}/versions/1?permanent=true")
    yield Sent("DELETE", f"/subjects/{subject}/versions/9")
    yield Sent("DELETE", f"/subjects/{subject}/versions/1")
    yield Sent("DELETE", f"/subjects/{subject}/versions/1")
    yield Sent("GET", f"/subjects/{subject}/versions")
    yield Sent("GET", f"/subjects/{subject}/versions?deleted=true")
    yield Sent("GET", f"/subjects/{subject}/versions/1?deleted=true")
    yield Sent("GET", "/schemas/ids/1")
    yield registering(subject, old)
    yield Sent("GET", f"/subjects/{subject}/versions")
    yield Sent("GET", f"/subjects/{subject}/versions?deleted=true")
    yield Sent("DELETE", f"/subjects/{subject}?permanent=true")
    yield Sent("DELETE", f"/subjects/{subject}")
    yield Sent("DELETE", f"/subjects/{subject}")
    yield Sent("GET", "/subjects")
    yield Sent("GET", "/subjects?deleted=true")
    yield Sent("POST", f"/subjects/{subject}", {"schema": json.dumps(old)})
    yield registering(subject, new)
    yield from _reads(subject)
    yield Sent("DELETE", f"/subjects/{subject}")
    yield Sent("DELETE", f"/subjects/{subject}?permanent=true")
    yield Sent("DELETE", f"/subjects/{subject}?permanent=true")
    yield from _reads(subject)
    yield registering(subject, new)


def _changes(name: str, changes: list[tuple[Any, Any]], kind: str) -> Iterator[Sent]:
    for number, (old, new) in enumerate(changes):
        for level in LEVELS:
            subject = f"{name}-{number}-{level}"
            yield Sent("PUT", f"/config/{subject}", {"compatibility": level})
            yield registering(subject, old, kind)
            body = {"schema": json.dumps(new), "schemaType": kind}
            yield Sent("POST", f"/compatibility/subjects/{subject}/versions/latest", body)
            yield registering(subject, new, kind)


def _settings(subject: str) -> Iterator[Sent]:
    yield Sent("GET", "/config")
    yield Sent("GET", "/mode")
    for level in ("NONE", "full_transitive", "SOMETIMES", ""):
        yield Sent("PUT", f"/config/{subject}", {"compatibility": level})
        yield Sent("GET", f"/config/{subject}")
    yield Sent("GET", f"/config/other-{subject}?defaultToGlobal=true")
    yield Sent("DELETE", f"/config/{subject}")
    yield Sent("GET", f"/config/{subject}")
    for level in ("FORWARD", "WRONG", "BACKWARD"):
        yield Sent("PUT", "/config", {"compatibility": level})
        yield Sent("GET", "/config")


def _references(subject: str) -> Iterator[Sent]:
    yield registering(f"{subject}-a", record("A", ("n", "int")))
    user = record("B", ("a", "A"))
    given = [{"name": "A", "subject": f"{subject}-a", "version": 1}]
    yield registering(f"{subject}-b", user)
    yield registering(f"{subject}-b", user, references=[{**given[0], "version": 7}])
    yield registering(f"{subject}-b", user, references=given)
    yield Sent("GET", f"/subjects/{subject}-b/versions/1")
    yield Sent("GET", f"/subjects/{subject}-a/versions/1/referencedby")
    yield Sent("DELETE", f"/subjects/{subject}-a/versions/1")
    yield Sent("DELETE", f"/subjects/{subject}-a")
    yield Sent("DELETE", f"/subjects/{subject}-b")
    yield Sent("GET", f"/subjects/{subject}-a/versions/1/referencedby")
    yield Sent("DELETE", f"/subjects/{subject}-a")


def _invalid() -> Iterator[Sent]:
    yield Sent("POST", "/subjects/invalid/versions", {"schema": ""})
    yield Sent("POST", "/subjects/invalid/versions", {})
    yield Sent("POST", "/subjects/invalid/versions", {"schema": '"int"', "schemaType": "XML"})
    yield Sent("POST", "/subjects/invalid/versions", {"schema": "{", "schemaType": "JSON"})
    yield Sent("POST", "/subjects/invalid/versions", {"schema": '{"type": 7}', "schemaType": "JSON"})
    yield Sent("POST", "/subjects/invalid/versions", {"schema": "message {", "schemaType": "PROTOBUF"})
    yield Sent("POST", "/compatibility/subjects/none/versions/latest", {"schema": '"int"'})
    yield Sent("POST", "/compatibility/subjects/none/versions/3", {"schema": '"int"'})
    yield Sent("GET", "/nothing")


class Comparison:
    """Which id of the one registry is which of the other."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}

    def is_equal(self, told: Told, other: Told) -> bool:
        """Return whether two answers say the same: all but the words of errors, and spaces in schemas."""
        if told.status >= 400 or other.status >= 400:
            return told.status == other.status and _code(told) == _code(other)
        mine, theirs = told.content, other.content
        if not isinstance(mine, dict) or not isinstance(theirs, dict):
            return bool(_sorted(mine) == _sorted(theirs))
        if "id" in mine and "id" in theirs and self._ids.setdefault(mine["id"], theirs["id"]) != theirs["id"]:
            return False
        is_registration = "id" in mine and "subject" not in mine
        left_out = {"id", "version"} if is_registration else {"id", "messages", "deleted"}
        both = [
            {key: _schema(each) for key, each in content.items() if key not in left_out}
            for content in (mine, theirs)
        ]
        return both[0] == both[1]


def _code(told: Told) -> Any:
    return told.content.get("error_code") if isinstance(told.content, dict) else None


def _sorted(content: Any) -> Any:
    return sorted(content, key=json.dumps) if isinstance(content, list) else content


def _schema(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value.split()


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(url: str, other: str) -> int:
    """Print the differences; return 1 if there are any."""
    comparison, count, differences = Comparison(), 0, 0
    for sent in requests():
        count += 1
        answers = [ask(each, *sent, headers={"content-type": "application/json"}) for each in (url, other)]
        if not comparison.is_equal(*answers):
            differences += 1
            body = "" if sent.body is None else json.dumps(sent.body)[:300]
            say(f"{sent.method} {sent.path} {body}")
            for each in answers:
                say(f"    {each.status} {json.dumps(each.content)[:300]}")
    say(f"{count} requests, {differences} answers differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
