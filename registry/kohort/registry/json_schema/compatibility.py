"""Whether every document that fits a writer's schema fits a reader's: keyword by keyword, and careful.

Some pairs that are compatible are refused, because the keywords alone do not tell. Conditions (if, then,
else) and regular expressions are compared as texts: a pattern of a client's may take for ever to run.
"""

from collections.abc import Sequence
from typing import Any

from kohort.registry.comparing import Comparison, Problems, problem
from kohort.registry.json_schema.arrays import array_problems
from kohort.registry.json_schema.document import Place
from kohort.registry.json_schema.objects import object_problems
from kohort.registry.json_schema.values import frozen, number_problems, same, string_problems, type_of

TYPES = ("null", "boolean", "number", "string", "array", "object")
ANY_OF = ("anyOf", "oneOf")
ANYTHING: dict[str, Any] = {}
"""The schema of everything, always the same object."""
CONDITIONS = ("if", "then", "else")


def problems_reading(reader: Place, writer: Place) -> Problems:
    """Return why documents of `writer` may not fit `reader`. Raises: InvalidSchema if that is too complex."""
    return Fit().whole(reader, writer)


class Fit(Comparison[Place]):
    """One comparison."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[tuple[int, str, int], Any] = {}  # Schemas that stand in no document, by what for.

    def identity(self, reader: Place, writer: Place) -> tuple[int, int]:
        """Return what is the same for the same pair. All nodes live as long as the comparison."""
        return id(reader.node), id(writer.node)

    def _make(self, node: dict[str, Any], why: str, number: int, made: Any) -> Any:
        """Return a schema made of a node: each time the same one, or recursive schemas would not end."""
        return self._made.setdefault((id(node), why, number), made)

    def _resolved(self, place: Place) -> Place:
        """Return what a schema refers to. Beside a `$ref` other keywords count since draft 2019-09."""
        node = place.node
        if isinstance(node, dict) and "$ref" in node and place.document.heeds_beside_ref:
            rest = without(node, "$ref")
            if not is_anything(rest):
                whole = {"allOf": [{"$ref": node["$ref"]}, rest]}
                return place.within(self._make(node, "$ref", 0, whole))
        found = place.resolved()
        return found if found.node is node or not isinstance(found.node, dict) else self._resolved(found)

    def look(self, reader: Place, writer: Place, path: str) -> Problems:
        """Return the problems of a pair of schemas."""
        reader, writer = self._resolved(reader), self._resolved(writer)
        new, old = reader.node, writer.node
        if is_anything(new) or old is False:
            return ()
        if new is False:
            return (problem("SCHEMA_FALSE", path, "the reader takes nothing"),)
        return self._with_sums(reader, writer.within(ANYTHING if old is True else old), path)

    def _with_sums(self, reader: Place, writer: Place, path: str) -> Problems:
        """Return the problems where schemas are alternatives (anyOf, oneOf) or hold together (allOf)."""
        for name in ANY_OF:
            if isinstance(branches := writer.node.get(name), list):  # Each of them has to fit.
                rest = without(writer.node, name)
                found: Problems = ()
                for number, each in enumerate(branches):
                    part = each
                    if not is_anything(rest):
                        part = self._make(writer.node, name, number, {"allOf": [rest, each]})
                    found += self.compare(reader, writer.within(part), f"{path}{name}/{number}/")
                return found
        if isinstance(types := writer.node.get("type"), list) and len(types) > 1:
            parts = [
                self._make(writer.node, "type", number, {**writer.node, "type": each})
                for number, each in enumerate(types)
            ]
            return tuple(one for each in parts for one in self._of_one(reader, writer.within(each), path))
        return self._of_one(reader, writer, path)

    def _of_one(self, reader: Place, writer: Place, path: str) -> Problems:
        """Return the problems of a writer that has no alternatives."""
        found: Problems = ()
        for name in ANY_OF:
            if isinstance(branches := reader.node.get(name), list):
                found += self._of_any(reader, writer, branches, f"{path}{name}/")
        for number, each in enumerate(reader.node.get("allOf", ())):
            found += self.compare(reader.within(each), writer, f"{path}allOf/{number}/")
        found += self._of_not(reader, writer, path)
        plain = without(reader.node, *ANY_OF, "allOf", "not")
        if found or is_anything(plain):
            return found
        if isinstance(parts := writer.node.get("allOf"), list):  # One of them is enough to make it fit.
            rest = without(writer.node, "allOf")
            tried = [
                self.compare(self._plain(reader, plain), writer.within(each), path)
                for each in (self._make(writer.node, "allOf", 0, merged([rest, *parts])), *parts, rest)
                if isinstance(each, dict) and each is not writer.node
            ]
            return min(tried, key=len, default=())
        return self._of_keywords(reader.within(plain), writer, path)

    def _plain(self, reader: Place, plain: dict[str, Any]) -> Place:
        return (
            reader
            if len(plain) == len(reader.node)
            else reader.within(self._make(reader.node, "plain", 0, plain))
        )

    def _of_any(self, reader: Place, writer: Place, branches: Sequence[Any], path: str) -> Problems:
        tried = [self.compare(reader.within(each), writer, f"{path}{n}/") for n, each in enumerate(branches)]
        if any(not each for each in tried):
            return ()
        if len(tried) == 1:
            return tried[0]
        return (problem("SUM_TYPE_NARROWED", path, "no alternative of the reader takes all of the writer"),)

    def _of_not(self, reader: Place, writer: Place, path: str) -> Problems:
        if "not" not in reader.node:
            return ()
        if "not" in writer.node:
            refused, before = writer.within(writer.node["not"]), reader.within(reader.node["not"])
            if not self.compare(refused, before, f"{path}not/"):
                return ()
        return (problem("NOT_TYPE_EXTENDED", f"{path}not", "the reader refuses more than the writer"),)

    def _of_keywords(self, reader: Place, writer: Place, path: str) -> Problems:
        """Return the problems of two schemas. The reader has neither sums nor products."""
        new, old = reader.node, writer.node
        if "$ref" in old or "$ref" in new:
            return () if same(new, old) else (problem("REFERENCE_CHANGED", path, "another $ref"),)
        values = values_of(old)
        if values is not None and "enum" not in new and "const" not in new:
            old = {**old, "type": old.get("type", sorted({type_of(each) for each in values}))}
            writer = writer.within(old)
        found = _enum_problems(new, values, path) + _type_problems(new, old, path)
        if found:
            return found
        if any(name in new and not same(new[name], old.get(name)) for name in CONDITIONS):
            return (problem("CONDITION_CHANGED", f"{path}if", "conditions are another ones"),)
        shared = types_of(new) & types_of(old)
        if shared & {"number", "integer"}:
            found += number_problems(new, old, path)
        if "string" in shared:
            found += string_problems(new, old, path)
        if "array" in shared:
            found += array_problems(self, reader, writer, path)
        if "object" in shared:
            found += object_problems(self, reader, writer, path)
        return found


def is_anything(node: Any) -> bool:
    """Return whether a schema takes every document."""
    return node is True or (isinstance(node, dict) and not any(each in node for each in _LIMITING))


_LIMITING = frozenset(
    (
        "$ref",
        "type",
        "enum",
        "const",
        "not",
        "anyOf",
        "oneOf",
        "allOf",
        "if",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "pattern",
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minContains",
        "maxContains",
        "maxItems",
        "minItems",
        "uniqueItems",
        "unevaluatedItems",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "required",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "maxProperties",
        "minProperties",
    )
)


def without(node: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a schema without some of its keywords."""
    return {name: each for name, each in node.items() if name not in names}


def merged(parts: Sequence[Any]) -> dict[str, Any] | None:
    """Return one schema for several that hold together, where no keyword is in two of them; else None."""
    found: dict[str, Any] = {}
    for each in parts:
        if not isinstance(each, dict) or "$ref" in each:
            return None
        limiting = {name: value for name, value in each.items() if name in _LIMITING}
        if any(name in found and not same(found[name], value) for name, value in limiting.items()):
            return None
        found |= limiting
    return found


def values_of(node: dict[str, Any]) -> list[Any] | None:
    """Return the values that a schema takes, where it lists them."""
    if "const" in node:
        return [node["const"]]
    return node["enum"] if isinstance(node.get("enum"), list) else None


def types_of(node: dict[str, Any]) -> set[str]:
    """Return the types that a schema takes; `integer` counts as a number."""
    given = node.get("type")
    names = set(TYPES) if given is None else {given} if isinstance(given, str) else set(given)
    return names | ({"integer"} if "number" in names else set())


def _type_problems(new: dict[str, Any], old: dict[str, Any], path: str) -> Problems:
    if missing := types_of(old) - types_of(new):
        words = f"the reader does not take {', '.join(sorted(missing))}"
        return (problem("TYPE_NARROWED" if types_of(old) & types_of(new) else "TYPE_CHANGED", path, words),)
    return ()


def _enum_problems(new: dict[str, Any], values: list[Any] | None, path: str) -> Problems:
    allowed = values_of(new)
    if allowed is None:
        return ()
    if values is None:
        return (problem("ENUM_ADDED", f"{path}enum", "the reader lists its values"),)
    known = {frozen(each) for each in allowed}
    if any(frozen(each) not in known for each in values):
        return (problem("ENUM_ARRAY_NARROWED", f"{path}enum", "the reader lacks values of the writer"),)
    return ()
