"""Every declaration against the schemas in Kafka's own jars: versions, fields, types, defaults, tags."""

import re
from collections.abc import Mapping, Sequence
from typing import cast
from uuid import UUID

import pytest

from kohort.protocol.offsets_topic import OffsetCommitKey
from kohort.protocol.schema import Field, Message
from kohort.protocol.versions import Versions
from tests.interop import schema_jars
from tests.messages import EVERY_MESSAGE, versions_of

Schema = Mapping[str, object]
every_message = pytest.mark.parametrize("cls", EVERY_MESSAGE, ids=lambda cls: cls.__name__)


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Schema]:
    try:
        return schema_jars.schemas()
    except schema_jars.MissingTool as missing:
        pytest.skip(str(missing))


@every_message
def test_a_message_has_the_versions_and_the_key_of_the_schema(
    cls: type[Message], schemas: Mapping[str, Schema]
) -> None:
    schema, declared = schemas[cls.__name__], cls.declaration()
    valid = Versions.parse(str(schema["validVersions"]))
    if _is_unstable(cls, schemas):
        valid = Versions(valid.lowest, valid.highest - 1)
    assert declared.versions == valid
    assert str(declared.flexible) == schema["flexibleVersions"]
    assert declared.api_key == schema.get("apiKey", -1) or schema["type"] == "coordinator-value"


@every_message
def test_the_fields_equal_those_of_the_schema(cls: type[Message], schemas: Mapping[str, Schema]) -> None:
    schema = schemas[cls.__name__]
    commons = {str(each["name"]): _fields(each) for each in _list(schema.get("commonStructs", []))}
    _compare(cls, _fields(schema), commons, frozenset(versions_of(cls)))


def test_the_oldest_key_of_an_offset_has_the_same_fields(schemas: Mapping[str, Schema]) -> None:
    _compare(OffsetCommitKey, _fields(schemas["LegacyOffsetCommitKey"]), {}, frozenset({0}))


def _is_unstable(cls: type[Message], schemas: Mapping[str, Schema]) -> bool:
    """Return whether the newest version is not settled yet; only the request's schema says so."""
    request = re.sub("Response$", "Request", cls.__name__)
    return bool(schemas[request].get("latestVersionUnstable", False))


def _compare(
    cls: type[Message],
    schema: Sequence[Schema],
    commons: Mapping[str, Sequence[Schema]],
    within: frozenset[int],
) -> None:
    """Compare a struct with its schema in the versions `within`, in the order of the wire."""
    expected = [each for each in schema if _versions(_present(each), within)]
    declared = [each for each in cls.declaration().fields if _those(each.versions, within)]
    assert [each.name for each in declared] == [_snake_case(str(each["name"])) for each in expected]
    for field, other in zip(declared, expected, strict=True):
        context = f"{cls.__name__}.{field.name}"
        assert _facts(field, within) == _facts_of_schema(field, other, within), context
        if field.struct is not None:
            inner = _fields(other) if "fields" in other else commons[str(other["type"]).removeprefix("[]")]
            _compare(field.struct, inner, commons, _those(field.versions, within))


def _present(schema: Schema) -> object:
    """Return the versions that have a field; where a schema gives those of the tag alone, they are these."""
    return schema.get("versions", schema.get("taggedVersions"))


def _facts(field: Field, within: frozenset[int]) -> dict[str, object]:
    present = _those(field.versions, within)
    return {
        "type": _type_name(field),
        "versions": present,
        "nullable": _those(field.nullable, present),
        "default": field.default,
        "tag": field.tag,
        "tagged": _those(field.tagged, present),
        "ignorable": field.ignorable or present == within,
        "flexible": field.flexible,
    }


def _facts_of_schema(field: Field, schema: Schema, within: frozenset[int]) -> dict[str, object]:
    present = _versions(_present(schema), within)
    type_name = re.sub("[A-Z][A-Za-z]*", "struct", str(schema["type"]))
    return {
        "type": type_name,
        "versions": present,
        "nullable": _versions(schema.get("nullableVersions", "none"), present),
        "default": _default(field, type_name, schema),
        "tag": schema.get("tag", -1),
        "tagged": _versions(schema.get("taggedVersions", "none"), present),
        "ignorable": schema.get("ignorable", False) or present == within,
        "flexible": schema.get("flexibleVersions") != "none",
    }


def _type_name(field: Field) -> str:
    if field.wire.name != "array":
        return field.wire.name
    return "[]" + ("struct" if field.element is None else field.element.name)


def _default(field: Field, type_name: str, schema: Schema) -> object:
    text = str(schema.get("default", ""))
    if text == "null":
        return None
    if type_name == "struct":
        assert field.struct is not None
        return field.struct()
    implied = {"string": text, "bytes": b"", "records": None, "uuid": UUID(int=0), "float64": 0.0}
    if type_name.startswith("[]"):
        return ()
    if type_name == "bool":
        return text.lower() == "true"
    return implied[type_name] if type_name in implied else int(text or "0", 0)


def _versions(text: object, within: frozenset[int]) -> frozenset[int]:
    return _those(Versions.parse(str(text)), within)


def _those(versions: Versions, within: frozenset[int]) -> frozenset[int]:
    return frozenset(each for each in within if each in versions)


def _fields(schema: Schema) -> Sequence[Schema]:
    return _list(schema["fields"])


def _list(value: object) -> Sequence[Schema]:
    assert isinstance(value, list)
    return cast("list[Schema]", value)


def _snake_case(name: str) -> str:
    return re.sub("(?<=.)([A-Z])", r"_\1", name).lower()
