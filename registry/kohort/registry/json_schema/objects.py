"""Objects of JSON Schema: properties with names, with patterns, and all others.

A schema is open where it takes properties that it does not name. A property can be added to a closed one, and
taken out of an open one: in an open one, documents may have it already, with any value.
"""

import re
from typing import Any

from kohort.registry.comparing import PROBLEMS_MAX, Problems, problem
from kohort.registry.errors import InvalidSchema
from kohort.registry.json_schema.arrays import Comparing
from kohort.registry.json_schema.document import Place
from kohort.registry.json_schema.values import limit_problems

SIMPLE = re.compile(r"\^?(?:[\w .:@/-]|\\[.dw_-]|\[[\w-]+\][*+]?|\.[*+]?|\\[dw][*+]?)*\$?")
"""Patterns that cannot take long: few repetitions, and none of a group."""
REPETITIONS_MAX = 2
NAME_LENGTH_MAX = 200
MATCHES_MAX = 20_000


def object_problems(fit: Comparing, reader: Place, writer: Place, path: str) -> Problems:
    """Return the problems of objects."""
    new, old = reader.node, writer.node
    found = limit_problems(new, old, ("maxProperties",), ("minProperties",), path)
    properties, before = new.get("properties", {}), old.get("properties", {})
    patterns = len(new.get("patternProperties", ())) + len(old.get("patternProperties", ()))
    if patterns * (len(properties) + len(before)) > MATCHES_MAX:
        raise InvalidSchema("it has too many patterns and properties to compare")
    for name in {**properties, **before}:
        if len(found) >= PROBLEMS_MAX:
            break
        for schema in schemas_for(new, name):
            where = f"{path}properties/{name}/"
            problems = _least(fit, reader.within(schema), writer, schemas_for(old, name), where)
            if problems and name not in before:
                found += (problem("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", where, f"{name} may be there"),)
            elif problems and name not in properties and schema is False:
                words = f"{name} may not be there any more"
                found += (problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, words),)
            else:
                found += problems
    found += fit.compare(
        reader.within(rest_of(new)), writer.within(rest_of(old)), f"{path}additionalProperties/"
    )
    found += _pattern_problems(fit, reader, writer, path)
    found += _required_problems(new, old, path)
    if "propertyNames" in new:
        names, names_before = (
            reader.within(new["propertyNames"]),
            writer.within(old.get("propertyNames", True)),
        )
        found += fit.compare(names, names_before, f"{path}propertyNames/")
    return found + _dependency_problems(fit, reader, writer, path)


def rest_of(node: dict[str, Any]) -> Any:
    """Return the schema of properties that are not named."""
    return node.get("additionalProperties", node.get("unevaluatedProperties", True))


def schemas_for(node: dict[str, Any], name: str) -> list[Any]:
    """Return the schemas that a property has to fit."""
    properties = node.get("properties", {})
    found = [properties[name]] if name in properties else []
    found += [each for pattern, each in node.get("patternProperties", {}).items() if matches(pattern, name)]
    return found or [rest_of(node)]


def matches(pattern: str, name: str) -> bool:
    """Return whether a name is one of a pattern; one that might take long to run has no names."""
    repetitions = sum(pattern.count(each) for each in "*+")
    if len(name) > NAME_LENGTH_MAX or repetitions > REPETITIONS_MAX or len(pattern) > NAME_LENGTH_MAX:
        return False
    try:
        return SIMPLE.fullmatch(pattern) is not None and re.search(pattern, name) is not None
    except re.error:
        return False


def _least(fit: Comparing, reader: Place, writer: Place, schemas: list[Any], path: str) -> Problems:
    """Return the problems with the one of several schemas of the writer, which all hold, that fits best."""
    return min((fit.compare(reader, writer.within(each), path) for each in schemas), key=len)


def _pattern_problems(fit: Comparing, reader: Place, writer: Place, path: str) -> Problems:
    found: Problems = ()
    before = writer.node.get("patternProperties", {})
    patterns = reader.node.get("patternProperties", {})
    for pattern, schema in patterns.items():
        old = before.get(pattern, rest_of(writer.node))
        found += fit.compare(reader.within(schema), writer.within(old), f"{path}patternProperties/{pattern}/")
    for pattern, schema in before.items():
        if pattern not in patterns:
            rest = reader.within(rest_of(reader.node))
            found += fit.compare(rest, writer.within(schema), f"{path}patternProperties/{pattern}/")
    return found


def _required_problems(new: dict[str, Any], old: dict[str, Any], path: str) -> Problems:
    found: Problems = ()
    before = frozenset(old.get("required", ()))
    for name in new.get("required", ()):
        schema = new.get("properties", {}).get(name)
        if schema is None or name in before or len(found) >= PROBLEMS_MAX:
            continue  # As with Confluent's registry, names without a schema do not count.
        if not (isinstance(schema, dict) and "default" in schema):
            words = f"{name} may be missing, and has no default"
            found += (problem("REQUIRED_PROPERTY_ADDED", f"{path}required/{name}", words),)
    return found


def _dependency_problems(fit: Comparing, reader: Place, writer: Place, path: str) -> Problems:
    found: Problems = ()
    before = dependencies_of(writer.node)
    for name, needs in dependencies_of(reader.node).items():
        where = f"{path}dependencies/{name}/"
        earlier = before.get(name)
        if isinstance(needs, list):
            if not isinstance(earlier, list) or set(needs) - set(earlier):
                found += (problem("DEPENDENCY_ARRAY_EXTENDED", where, f"{name} needs more"),)
        elif earlier is None or isinstance(earlier, list):
            found += (problem("DEPENDENCY_SCHEMA_ADDED", where, f"{name} needs more"),)
        else:
            found += fit.compare(reader.within(needs), writer.within(earlier), where)
    return found


def dependencies_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return what each property needs: names, or a schema."""
    return {
        **node.get("dependencies", {}),
        **node.get("dependentRequired", {}),
        **node.get("dependentSchemas", {}),
    }
