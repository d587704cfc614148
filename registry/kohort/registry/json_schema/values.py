"""Numbers and strings of JSON Schema: a reader's limits must not be narrower than the writer's."""

from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from kohort.registry.comparing import Problems, problem

UPPER = ("maximum", "exclusiveMaximum")
LOWER = ("minimum", "exclusiveMinimum")


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(each, other[name]) for name, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def frozen(value: Any) -> Hashable:
    """Return something to put into a set: equal for equal JSON values."""
    if isinstance(value, dict):
        return "object", frozenset((name, frozen(each)) for name, each in value.items())
    if isinstance(value, list):
        return "array", tuple(map(frozen, value))
    return isinstance(value, bool), value


def type_of(value: Any) -> str:
    """Return the type of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    names = {float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


def limit_problems(
    new: dict[str, Any], old: dict[str, Any], upper: tuple[str, ...], lower: tuple[str, ...], path: str
) -> Problems:
    """Return the limits of the reader that the writer does not have, or has wider."""
    found: Problems = ()
    for name in (*upper, *lower):
        limit, before = number(new.get(name)), number(old.get(name))
        if limit is None or (name in lower and name.startswith("min") and limit <= 0 and name not in LOWER):
            continue
        if before is None:
            found += (problem(f"{_upper(name)}_ADDED", f"{path}{name}", f"the reader has a {name}"),)
        elif before > limit if name in upper else before < limit:
            kind = f"{_upper(name)}_{'DECREASED' if name in upper else 'INCREASED'}"
            found += (problem(kind, f"{path}{name}", f"{name} is {limit}, and was {before}"),)
    return found


def number_problems(new: dict[str, Any], old: dict[str, Any], path: str) -> Problems:
    """Return the problems of numbers."""
    found = limit_problems(new, old, UPPER, LOWER, path)
    multiple, before = number(new.get("multipleOf")), number(old.get("multipleOf"))
    if multiple is not None and (before is None or not multiple or Fraction(before) % Fraction(multiple)):
        found += (
            problem("MULTIPLE_OF_CHANGED", f"{path}multipleOf", f"numbers are multiples of {multiple}"),
        )
    return found


def string_problems(new: dict[str, Any], old: dict[str, Any], path: str) -> Problems:
    """Return the problems of strings."""
    found = limit_problems(new, old, ("maxLength",), ("minLength",), path)
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED"
        found += (problem(kind, f"{path}pattern", "the reader has another pattern"),)
    return found


def number(value: Any) -> int | float | None:
    """Return a value if it is a number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _upper(name: str) -> str:
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in name)
