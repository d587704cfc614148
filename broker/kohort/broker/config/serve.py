"""The configuration file of `kohort serve`: settings, listeners and the data folder.

A file that ends in .properties is a Kafka file: there `log.dirs`, `listeners` and `advertised.listeners` set
kohort's options. Protection that kohort does not have stops the start. Unused settings are ignored. In other
files these names are refused with the option to use.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.load import checked_texts, parsed_config, read_toml, require_known
from kohort.broker.config.values import HIDDEN, ConfigError, ConfigSource, render

if TYPE_CHECKING:
    from kohort.protocol.config_providers import Provider

FLAGS = ("listen", "advertise", "data", "http")
SEVERAL = ("listen", "advertise")
"""Options that may have several values: a list in TOML, comma-separated in Kafka's files."""
PROPERTIES = ".properties"


class ServeConfig(NamedTuple):
    """The broker's settings, the file's values of options, and the ignored settings of Kafka."""

    config: BrokerConfig
    flags: Mapping[str, str]
    passed_over: tuple[str, ...] = ()


def load_serve_config(file: Path | None, settings: Sequence[tuple[str, str]]) -> ServeConfig:
    """Return the broker's settings: `settings` (name and text; later ones win) over those of the file.

    Raises: ConfigError with the wrong name or value, and the allowed ones.
    """
    texts: dict[str, str | None] = {}
    flags: dict[str, str] = {}
    passed_over: tuple[str, ...] = ()
    if file is not None and file.suffix == PROPERTIES:
        found, flags, passed_over = _from_kafka(file)
        texts = checked_texts(found, f"{file}: ")
    elif file is not None:
        document = read_toml(file)
        flags = {name: _flag(document.pop(name), name, file) for name in FLAGS if name in document}
        plain = {name: text for name, text in document.items() if isinstance(text, str)}
        known, rest = _providers(plain, file)
        document = {
            name: _resolved(name, value, f"{file}: ", known) if isinstance(value, str) else value
            for name, value in document.items()
            if name in rest or not isinstance(value, str)
        }
        texts = checked_texts(document, f"{file}: ")
    for name, text in settings:
        if name in FLAGS:
            raise ConfigError(f"{name} is an option: give --{name} {text}")
        require_known(name, "")
        texts[name] = _resolved(name, text, "", None)
    return ServeConfig(parsed_config(texts), flags, passed_over)


def changed_settings(config: BrokerConfig) -> dict[str, str | None]:
    """Return the settings that were set to other values than their defaults, as text."""
    return {
        name: HIDDEN if BrokerConfig.DEFINITIONS[name].sensitive else render(config.value(name))
        for name in sorted(config.layer(ConfigSource.STATIC_BROKER))
        if config.value(name) != BrokerConfig.DEFINITIONS[name].default
    }


def shown_setting(setting: str) -> str:
    """Return NAME=VALUE for a screen: the value is hidden if it is secret, or of no known setting."""
    name, _, _ = setting.partition("=")
    definition = BrokerConfig.DEFINITIONS.get(name)
    return f"{name}={HIDDEN}" if definition is None or definition.sensitive else setting


def _flag(value: object, name: str, file: Path) -> str:
    if name in SEVERAL and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if not isinstance(value, str):
        raise ConfigError(f"{file}: {name} is {value!r}: give text in quotes")
    return value


def _from_kafka(file: Path) -> tuple[dict[str, object], dict[str, str], tuple[str, ...]]:
    """Return the settings of a Kafka properties file, its values of options, and the ignored names."""
    from kohort.broker.config import kafka_listeners  # noqa: PLC0415  # Needed only for such a file.
    from kohort.broker.config.unused import unused_names  # noqa: PLC0415

    settings: dict[str, object] = {}
    flags: dict[str, str] = {}
    passed_over = []
    listeners: dict[str, str] = {}
    known, texts = _providers(dict(_properties(file)), file)
    for name, text in texts.items():
        value = _resolved(name, text, f"{file}: ", known)
        if name in ("log.dirs", "log.dir"):
            if name == "log.dirs" or "data" not in flags:  # Kafka: log.dirs wins over log.dir.
                flags["data"] = _one_folder(value, file)
        elif name in kafka_listeners.NAMES:
            listeners[name] = value
        elif name in FLAGS:
            flags[name] = value
        elif name in unused_names():
            passed_over.append(name)
        else:
            settings[name] = value
    try:
        flags |= kafka_listeners.listener_flags(listeners)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return settings, flags, tuple(passed_over)


def _providers(texts: Mapping[str, str], file: Path) -> "tuple[Mapping[str, Provider], dict[str, str]]":
    """Return the config providers, and the other settings. Raises: ConfigError."""
    from kohort.protocol.config_providers import providers  # noqa: PLC0415

    try:
        return providers(texts)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None


def _resolved(name: str, text: str, place: str, known: "Mapping[str, Provider] | None") -> str:
    """Return the value of a setting with its references resolved. Raises: ConfigError."""
    if "${" not in text:
        return text
    from kohort.protocol.config_providers import DEFAULT_PROVIDERS, resolve  # noqa: PLC0415  # Few settings have references.

    try:
        return resolve(text, DEFAULT_PROVIDERS if known is None else known)
    except ValueError as error:
        raise ConfigError(f"{place}{name}: {error}") from None


def _one_folder(value: str, file: Path) -> str:
    folders = [each.strip() for each in value.split(",") if each.strip()]
    if len(folders) != 1:
        raise ConfigError(f"{file}: log.dirs names {len(folders)} folders; kohort keeps its data in one")
    return folders[0]


def _properties(file: Path) -> list[tuple[str, str]]:
    """Return the settings of a Java properties file. Raises: ConfigError."""
    from kohort.protocol.java_properties import read_properties  # noqa: PLC0415

    try:
        return [(each.name, each.value.strip()) for each in read_properties(file)]
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
