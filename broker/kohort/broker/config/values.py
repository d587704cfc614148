"""Configuration values: types, text format, limits, and error messages.

Texts have Kafka's format: `true`, `9223372036854775807`, `0.5`, lists with commas.
Source: org.apache.kafka.common.config.ConfigDef.
"""

import math
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

HIDDEN = "[hidden]"
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ConfigValue = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. `None` is Kafka's null, which is allowed only if the default is null."""


class ConfigError(ValueError):
    """An unknown name or a wrong value. The text is one line and has the allowed values."""


class ConfigType(IntEnum):
    """The type of a value, by the number that DescribeConfigs sends for it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9
    """Secret text that is never shown."""


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = ConfigType


class ConfigSource(IntEnum):
    """Where a value comes from, by the number that DescribeConfigs sends for it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Validator(NamedTuple):
    """The limits of a value: as text, and as a check that returns the problem, or None."""

    words: str
    check: Callable[[ConfigValue], str | None]


class ConfigDefinition(NamedTuple):
    """The definition of one setting."""

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    validator: Validator
    synonyms: tuple[str, ...] = ()
    """The broker's settings that provide a topic's default. The first that is set wins."""
    sensitive: bool = False
    read_only: bool = False
    """A broker's setting that only a restart changes."""
    internal: bool = False
    """Accepted, but not listed: for tests of the broker itself."""
    kafka_default: str | None = None
    """Apache Kafka's default, if kohort's is different."""

    @property
    def attribute(self) -> str:
        """The attribute of `BrokerConfig` or `TopicConfig`: the name with underscores."""
        return self.name.replace(".", "_")

    def parse(self, text: str | None) -> ConfigValue:
        """Return the parsed value. Raises: ConfigError for a wrong type or a value beyond the limits."""
        if text is None:
            return self.checked(None)
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError as error:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {error}") from None
        return self.checked(value)

    def checked(self, value: ConfigValue) -> ConfigValue:
        """Return `value`, a double always as a float. Raises: ConfigError, like `parse`."""
        problem = _type_problem(self, value)
        if problem is None and value is not None:
            problem = self.validator.check(value)
        if problem is not None:
            shown = render(value) if value is not None else "null"
            shown = HIDDEN if self.sensitive else shown
            raise ConfigError(f"Invalid value {shown} for configuration {self.name}: {problem}")
        return float(value) if self.type is ConfigType.DOUBLE and isinstance(value, int) else value


def render(value: ConfigValue) -> str | None:
    """Return a value as text in Kafka's format. None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return repr(value).replace("e+", "E") if isinstance(value, float) else str(value)


# -- parsing ------------------------------------------------------------------------------------------


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("it must be true or false")
    return lowered == "true"


def _parse_integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError("it must be a whole number")
    return int(text)


def _parse_double(text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError("it must be a number such as 0.5")
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    """Return the items in order, without duplicates."""
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()


_PARSERS: dict[ConfigType, Callable[[str], ConfigValue]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _parse_integer,
    ConfigType.SHORT: _parse_integer,
    ConfigType.LONG: _parse_integer,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.PASSWORD: str,
}

_RANGES = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}


def _type_problem(definition: ConfigDefinition, value: ConfigValue) -> str | None:
    """Return the problem if `value` does not have the setting's type."""
    if value is None:
        return None if definition.default is None else "it must have a value"
    kind = definition.type
    if kind in _RANGES:
        low, high = _RANGES[kind]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        right = is_whole and isinstance(value, int) and low <= value <= high
        return None if right else f"it must be a whole number from {low} to {high}"
    if kind is ConfigType.BOOLEAN:
        return None if isinstance(value, bool) else "it must be true or false"
    if kind is ConfigType.DOUBLE:
        return (
            None if isinstance(value, int | float) and not isinstance(value, bool) else "it must be a number"
        )
    if kind is ConfigType.LIST:
        return None if isinstance(value, tuple) else "it must be a list"
    return None if isinstance(value, str) else "it must be text"


# -- limits -------------------------------------------------------------------------------------------


def _number(value: ConfigValue) -> float:
    assert isinstance(value, int | float)
    return value


ANYTHING = Validator("", lambda _value: None)


def at_least(low: float) -> Validator:
    """Return the validator of numbers from `low` on."""
    return Validator(
        f"[{low},...]", lambda value: None if _number(value) >= low else f"it must be at least {low}"
    )


def zero_or_at_least(low: float) -> Validator:
    """Return the validator of 0, which disables something, and of numbers from `low` on."""
    return Validator(
        f"0,[{low},...]",
        lambda value: (
            None if not _number(value) or _number(value) >= low else f"it must be 0, or at least {low}"
        ),
    )


def between(low: float, high: float) -> Validator:
    """Return the validator of numbers from `low` to `high`, both included."""
    return Validator(
        f"[{low},...,{high}]",
        lambda value: None if low <= _number(value) <= high else f"it must be from {low} to {high}",
    )


def between_or(low: int, high: int, special: int) -> Validator:
    """Return the validator of numbers from `low` to `high`, and of `special`."""

    def check(value: ConfigValue) -> str | None:
        right = low <= _number(value) <= high or value == special
        return None if right else f"it must be from {low} to {high}, or {special}"

    return Validator(f"[{low},...,{high}] or {special}", check)


def one_of(*choices: str) -> Validator:
    """Return the validator of these words and no other."""
    words = ", ".join(choices)
    return Validator(f"[{words}]", lambda value: None if value in choices else f"it must be one of {words}")


def one_of_in_any_case(*choices: str) -> Validator:
    """Return the validator of these words in upper or lower case."""
    words = f"(case insensitive) [{', '.join(choices)}]"

    def check(value: ConfigValue) -> str | None:
        is_one = isinstance(value, str) and value.upper() in choices
        return None if is_one else f"it must be one of {', '.join(choices)}"

    return Validator(words, check)


def registry_urls() -> Validator:
    """Return the validator of URLs by http or https, with commas between them."""

    def check(value: ConfigValue) -> str | None:
        from urllib.parse import urlsplit  # noqa: PLC0415  # Few brokers have a URL to check.

        assert isinstance(value, str)
        try:
            urls = [urlsplit(each.strip()) for each in value.split(",")]
            are_right = all(each.scheme in ("http", "https") and each.hostname for each in urls)
            _ = [each.port for each in urls]
        except ValueError:
            are_right = False
        return None if are_right else "it must be a URL such as http://127.0.0.1:8081"

    return Validator("URLs", check)


def each_of(*choices: str) -> Validator:
    """Return the validator of lists that hold only these words."""
    words = ", ".join(choices)

    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        return None if all(item in choices for item in value) else f"each item must be one of {words}"

    return Validator(f"[{words}]", check)


def only(value: bool, why: str) -> Validator:
    """Return the validator of a switch with only one supported value, and the reason."""
    text = render(value)
    return Validator(f"[{text}]", lambda given: None if given is value else f"it must be {text}: {why}")


def _check_throttled_replicas(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    pairs = [item.split(":") for item in value]
    if value in ((), ("*",)) or all(len(pair) == 2 and all(n.isdecimal() for n in pair) for pair in pairs):
        return None
    return "it must be * or a list such as 0:1,1:1 of partition:broker"


THROTTLED_REPLICAS = Validator("* or partition:broker,...", _check_throttled_replicas)
