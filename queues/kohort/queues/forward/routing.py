"""Which service a record is pushed to, by rules on its headers, its key and its JSON: pure.

The first route whose conditions all hold takes the record; where none does, the destination's own service.
A value that is no JSON, or lacks the path, meets no condition on a path.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from math import inf

import msgspec

from kohort.client.errors import ConfigurationError
from kohort.client.partitioner import murmur2
from kohort.client.values import AnyRecord

HASH_RANGE = 100
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MISSING = object()

Scalar = str | int | float | bool


class RouteAction(StrEnum):
    """What a route does with its records."""

    PUSH = "push"
    DROP = "drop"
    DEAD = "dead"


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that has to hold of a record: a header, a value of its JSON, or its key.

    A header or a path alone has to be there; with `equals` or `prefix` it has to be that, or begin with that.
    """

    header: str = ""
    json_path: str = ""
    """`$.order.items[0].country`."""
    key_prefix: str = ""
    key_hash: tuple[int, int] | None = None
    """From and to, of 0 to 100: murmur2 of the key, as Kafka's partitioner has it, modulo 100."""
    equals: Scalar | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        given = (self.header, self.json_path, self.key_prefix, self.key_hash)
        if sum(bool(each) for each in given) != 1:
            raise ConfigurationError("a condition has one of header, json_path, key_prefix and key_hash")
        if (self.equals is not None or self.prefix) and not (self.header or self.json_path):
            raise ConfigurationError("equals and prefix are for a header or a json_path")
        if self.equals is not None and self.prefix:
            raise ConfigurationError("a condition has equals or prefix, not both")
        if self.header and self.equals is not None and not isinstance(self.equals, str):
            raise ConfigurationError(f"header {self.header!r}: a header is a text, so that equals is one")
        if self.json_path and steps_of(self.json_path) is None:
            raise ConfigurationError(f"json_path is {self.json_path!r}: give $.name.name[0]")
        if self.key_hash is not None and not 0 <= self.key_hash[0] < self.key_hash[1] <= HASH_RANGE:
            raise ConfigurationError(f"key_hash is {list(self.key_hash)}: give from and to, of 0 to 100")

    def __str__(self) -> str:
        named = (
            f"header {self.header}"
            if self.header
            else f"json_path {self.json_path}"
            if self.json_path
            else ""
        )
        if self.key_prefix:
            return f"key_prefix {self.key_prefix!r}"
        if self.key_hash is not None:
            return f"key_hash {self.key_hash[0]} to {self.key_hash[1]}"
        if self.equals is not None:
            return f"{named} equals {self.equals!r}"
        return f"{named} prefix {self.prefix!r}" if self.prefix else f"{named} is there"


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What becomes of records for which all conditions hold. Limits of 0 are the destination's."""

    name: str
    when: tuple[Condition, ...]
    action: RouteAction = RouteAction.PUSH
    url: str = ""
    token_file: str | None = None
    """"" for none. Where it is not given, the destination's, if the url has its scheme, host and port."""
    ca_file: str = ""
    concurrency_max: int = 0
    rate_max: float = 0.0
    failures_max: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"a route's name is {self.name!r}: letters, digits, '.', '_' and '-'")
        if not self.when:
            raise ConfigurationError(f"route {self.name!r} needs a condition")
        if (self.action is RouteAction.PUSH) != bool(self.url):
            raise ConfigurationError(f"route {self.name!r} has a url, or the action drop or dead")
        if any(not 0 <= each < inf for each in (self.concurrency_max, self.rate_max, self.failures_max)):
            raise ConfigurationError(f"limits of route {self.name!r} are numbers, and not negative")


class Content:
    """A record as conditions look at it: its JSON is decoded once, and only if a condition asks for it."""

    def __init__(self, record: AnyRecord) -> None:
        self.record = record
        self._json: object = None
        self._is_decoded = False

    def meets(self, condition: Condition) -> bool:
        """Return whether a condition holds."""
        if condition.key_prefix:
            return (self.record.key or b"").startswith(condition.key_prefix.encode())
        if condition.key_hash is not None:
            key = self.record.key
            low, high = condition.key_hash
            return key is not None and low <= (murmur2(key) & 0x7FFFFFFF) % HASH_RANGE < high
        return _matches(condition, self._header(condition) if condition.header else self._at(condition))

    def _header(self, condition: Condition) -> object:
        value = self.record.header(condition.header)
        return _MISSING if value is None else value.decode(errors="replace")

    def _at(self, condition: Condition) -> object:
        if not self._is_decoded:
            self._is_decoded = True
            try:
                self._json = msgspec.json.decode(self.record.value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._json = _MISSING
        found = self._json
        for step in steps_of(condition.json_path) or ():
            found = _inside(found, step)
        return found


def _inside(value: object, step: str | int) -> object:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step, _MISSING)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return _MISSING


def _matches(condition: Condition, found: object) -> bool:
    if found is _MISSING:
        return False
    if condition.prefix:
        return isinstance(found, str) and found.startswith(condition.prefix)
    if condition.equals is None:
        return True
    if isinstance(found, bool) or isinstance(condition.equals, bool):
        return found is condition.equals
    return found == condition.equals


def steps_of(path: str) -> tuple[str | int, ...] | None:
    """Return the names and indexes of a path such as `$.a.b[0]`; None for what is none."""
    found = _steps.get(path)
    if found is None and path.startswith("$"):
        matches = list(_STEP.finditer(path, 1))
        if "".join(each[0] for each in matches) == path[1:]:
            found = _steps[path] = tuple(each[1] or int(each[2]) for each in matches)
    return found


_steps: dict[str, tuple[str | int, ...]] = {}  # Of the paths that a file names.


def choose(routes: Sequence[Route], record: AnyRecord) -> Route | None:
    """Return the route that takes a record; None for the destination's own service."""
    if not routes:
        return None
    content = Content(record)
    for route in routes:
        if all(content.meets(each) for each in route.when):
            return route
    return None


def explain(routes: Sequence[Route], record: AnyRecord) -> list[str]:
    """Return a line for each route up to the one that takes a record: what held, or what did not."""
    content, found = Content(record), []
    for route in routes:
        failed = next((each for each in route.when if not content.meets(each)), None)
        if failed is not None:
            found.append(f"route {route.name}: no, not {failed}")
            continue
        what = f"push to {route.url}" if route.action is RouteAction.PUSH else str(route.action)
        return [*found, f"route {route.name}: yes, {what}"]
    return found
