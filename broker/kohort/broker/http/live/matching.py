"""The conditions of a search: a record's key, a text in it, and a value in its JSON."""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from kohort.protocol.records import Record

JSON_BYTES_MAX = 256 * 1024
"""A longer value is not read as JSON: reading it would hold the broker's loop."""
STEPS_MAX = 20
VALUES_MAX = 10_000
"""The limit for one record: a path with `[*]` may lead to very many values."""

_OPERATOR = re.compile(r"<=|>=|!=|=|<|>|~|!")
_STEP = re.compile(r"\.?(?:(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,6}|\*)\]|\[\"(?P<quoted>[^\"]*)\"\])")

Step = str | int | None
"""A member's name, an index, or None for all."""


class Condition(NamedTuple):
    """A condition for a value in a record's JSON, such as `$.lines[*].count >= 2`.

    Without an operator the value only has to exist.
    """

    steps: tuple[Step, ...]
    operator: str = ""
    value: str = ""

    def holds(self, data: bytes | None) -> bool:
        """Return whether this JSON meets the condition. Other data never do."""
        if data is None or len(data) > JSON_BYTES_MAX:
            return False
        try:
            document = _decoded(data)
        except (ValueError, RecursionError):
            return False
        found = list(_values(document, self.steps))
        if self.operator == "!=":
            return bool(found) and not any(_is(each, self.value) for each in found)
        return any(_COMPARE[self.operator](each, self.value) for each in found)


class Match(NamedTuple):
    """A search: for this key, this text in key, value or headers, and this condition in the JSON."""

    text: bytes = b""
    key: bytes | None = None
    condition: Condition | None = None

    @property
    def is_any(self) -> bool:
        """Whether it matches every record."""
        return self == ANY

    def finds(self, record: Record) -> bool:
        """Return whether the record matches."""
        if self.key is not None and record.key != self.key:
            return False
        if self.text and not _has(record, self.text):
            return False
        return self.condition is None or self.condition.holds(record.value)


ANY = Match()


def condition_of(text: str) -> Condition:
    """Return the condition of a text such as `$.customer.id = c-3`. Raises: ValueError."""
    operator = _OPERATOR.search(text)
    path = (text if operator is None else text[: operator.start()]).strip()
    value = "" if operator is None else text[operator.end() :].strip()
    path = path.removeprefix("$").removeprefix(".")
    steps: list[Step] = []
    place = 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None or len(steps) == STEPS_MAX:
            raise ValueError(f"{text} is no JSON path: write $.lines[0].sku = A-1")
        steps.append(_step(step))
        place = step.end()
    is_known = operator is None or operator[0] in _COMPARE or operator[0] == "!="
    if not is_known or not steps or path.startswith("."):
        raise ValueError(f"{text} is no JSON path: write $.lines[0].sku = A-1")
    return Condition(tuple(steps), "" if operator is None else operator[0], _unquoted(value))


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return None if found["index"] == "*" else int(found["index"])
    return str(found["quoted"] if found["name"] is None else found["name"])


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _decoded(data: bytes) -> object:
    """Return the JSON. Raises: ValueError, RecursionError."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)  # It reads numbers that no float holds.


def _values(document: object, steps: tuple[Step, ...]) -> Iterator[object]:
    """Yield the values to which the steps lead."""
    found = [document]
    for step in steps:
        found = [each for one in found for each in _behind(one, step)][:VALUES_MAX]
    yield from found


def _behind(value: object, step: Step) -> list[object]:
    if isinstance(value, dict):
        if step is None:
            return list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list):
        if step is None:
            return value
        return [value[step]] if isinstance(step, int) and step < len(value) else []
    return []


def _is(value: object, wanted: str) -> bool:
    if isinstance(value, str):
        return value == wanted
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value] == wanted
    if isinstance(value, int | float):
        return value == _number(wanted)
    return False


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _ordered(compare: Callable[[object, object], bool]) -> Callable[[object, str], bool]:
    """Return a function that compares numbers with a number and strings with a text."""

    def holds(value: object, wanted: str) -> bool:
        if isinstance(value, str):
            return compare(value, wanted)
        number = _number(wanted)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and number is not None and compare(value, number)

    return holds


_COMPARE: dict[str, Callable[[object, str], bool]] = {
    "": lambda _value, _wanted: True,
    "=": _is,
    "~": lambda value, wanted: isinstance(value, str) and wanted in value,
    "<": _ordered(lambda one, other: one < other),  # type: ignore[operator]
    "<=": _ordered(lambda one, other: one <= other),  # type: ignore[operator]
    ">": _ordered(lambda one, other: one > other),  # type: ignore[operator]
    ">=": _ordered(lambda one, other: one >= other),  # type: ignore[operator]
}


def _has(record: Record, text: bytes) -> bool:
    """Return whether key, value, or a header's name or value contains the text."""
    if text in (record.key or b"") or text in (record.value or b""):
        return True
    return any(text in name.encode() or text in (value or b"") for name, value in record.headers)
