"""Loads a `BrokerConfig` from a TOML file and NAME=VALUE settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError, ConfigValue, render

if TYPE_CHECKING:
    from pathlib import Path

OF_ONE_LISTENER = "listener.name."


def load_config(file: "Path | None", settings: Sequence[tuple[str, str]]) -> BrokerConfig:
    """Return the broker's settings: `settings` (name and text; later ones win) over those of the file.

    The file is TOML with Kafka's dotted names, quoted or as nested tables: `"log.retention.ms" = 5`,
    `log.retention.ms = 5` and `[log.retention]` `ms = 5` are the same.
    Raises: ConfigError with the wrong name or value, and the allowed ones.
    """
    texts = checked_texts(read_toml(file), f"{file}: ") if file is not None else {}
    for name, text in settings:
        require_known(name, "")
        texts[name] = text
    return parsed_config(texts)


def parsed_config(texts: dict[str, str | None]) -> BrokerConfig:
    """Return the settings from texts, including those of single listeners. Raises: ConfigError."""
    if any(name.startswith(OF_ONE_LISTENER) for name in texts):
        from kohort.broker.config.listener_settings import taken_apart  # noqa: PLC0415  # Few settings are of one listener.

        texts = taken_apart(texts)
    return BrokerConfig.parsed(texts)


def read_toml(file: "Path") -> dict[str, object]:
    """Return the names and values of a TOML file, flat. Raises: ConfigError."""
    import tomllib  # noqa: PLC0415  # Needed only with a file.

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: it must be UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {str(error).splitlines()[0]}{_toml_hint(str(error))}") from None
    return dict(_flattened(document, ""))


def checked_texts(found: Mapping[str, object], place: str) -> dict[str, str | None]:
    """Return checked settings as text. Raises: ConfigError, which begins with `place`."""
    texts: dict[str, str | None] = {}
    for name, value in found.items():
        require_known(name, place)
        if name.startswith(OF_ONE_LISTENER):
            texts[name] = _as_text(name, value)
            continue
        try:
            definition = BrokerConfig.definition(name)
            texts[name] = render(definition.parse(_as_text(name, value)))
        except ConfigError as error:
            raise ConfigError(f"{place}{error}") from None
    return texts


def _toml_hint(error: str) -> str:
    """Return advice for the error of two names where one is a prefix of the other: quote the longer one."""
    return '; write a longer name in quotes, "like.this"' if "overwrite" in error or "mutate" in error else ""


def _flattened(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{name}.")
        else:
            yield name, value


def _as_text(name: str, value: object) -> str | None:
    items = tuple(str(item) for item in value) if isinstance(value, list) else value
    if isinstance(items, bool | int | float | str | tuple):
        plain: ConfigValue = items
        return render(plain)
    raise ConfigError(f"Invalid value {value} for configuration {name}: it must be text, a number or a list")


_OPTION_OF = {
    "log.dirs": "--data DIR",
    "log.dir": "--data DIR",
    "listeners": "--listen HOST:PORT",
    "advertised.listeners": "--advertise HOST:PORT",
}


def require_known(name: str, place: str) -> None:
    """Raise ConfigError for an unknown name: an option, an unused setting of Kafka, or a misspelled name."""
    if name in BrokerConfig.DEFINITIONS:
        return
    if name.startswith(OF_ONE_LISTENER):
        from kohort.broker.config import listener_settings  # noqa: PLC0415  # Few settings are of one listener.

        listener_settings.require_known(name)
        return
    if name in _OPTION_OF:
        option = _OPTION_OF[name]
        in_a_file = option.removeprefix("--").split()[0]
        raise ConfigError(
            f"{place}{name} is an option of kohort serve: {option}; in a file, {in_a_file} = ..."
        )
    from kohort.broker.config.unused import unused_names  # noqa: PLC0415  # Needed only for mistakes.

    if name in unused_names():
        raise ConfigError(f"{place}{name} is a setting of Apache Kafka that kohort has no use for: remove it")
    raise ConfigError(f"{place}Unknown broker config name: {name}{BrokerConfig.hint(name)}")
