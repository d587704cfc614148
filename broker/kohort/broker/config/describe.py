"""The answer of DescribeConfigs for a broker or a topic: values, sources and synonyms."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.settings import Settings
from kohort.broker.config.topic_config import TOPIC_DEFINITIONS, topic_config
from kohort.broker.config.values import ConfigDefinition, ConfigSource, ConfigType, render

_SYNONYMS = {
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


class ConfigSynonym(NamedTuple):
    """A setting, or a default, that can provide a setting's value."""

    name: str
    value: str | None
    source: ConfigSource


Synonyms = tuple[ConfigSynonym, ...]
"""The first one is in force."""


class ConfigEntry(NamedTuple):
    """A setting in the answer of DescribeConfigs."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: Synonyms
    type: ConfigType
    documentation: str


def describe_broker(broker: BrokerConfig) -> list[ConfigEntry]:
    """Return every setting of the broker."""
    return [
        entry(definition, render(broker.value(definition.name)), broker_synonyms(broker, definition.name))
        for definition in BrokerConfig.DEFINITIONS.values()
    ]


def describe_topic(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> list[ConfigEntry]:
    """Return every setting of a topic with these overrides, except internal ones."""

    def of_broker(definition: ConfigDefinition) -> Synonyms:
        return broker_synonyms(broker, definition.synonyms[0]) if definition.synonyms else ()

    config = topic_config(broker, overrides)
    return resource_entries(TOPIC_DEFINITIONS, config, overrides, ConfigSource.TOPIC, of_broker)


def resource_entries(
    definitions: Iterable[ConfigDefinition],
    settings: Settings,
    overrides: Mapping[str, str | None],
    source: ConfigSource,
    others: Callable[[ConfigDefinition], Synonyms],
) -> list[ConfigEntry]:
    """Return these settings of a resource; `others` returns the synonyms of a setting besides an override."""
    entries = []
    for definition in definitions:
        value = render(settings.value(definition.name))
        synonyms = others(definition)
        if definition.name in overrides:
            synonyms = (ConfigSynonym(definition.name, value, source), *synonyms)
        entries.append(entry(definition, value, synonyms))
    return entries


def default_synonym(definition: ConfigDefinition) -> Synonyms:
    """Return the default, as the only synonym of a setting that the broker does not have."""
    return (ConfigSynonym(definition.name, render(definition.default), ConfigSource.DEFAULT),)


def broker_synonyms(broker: BrokerConfig, name: str) -> Synonyms:
    """Return the synonyms of the broker's setting `name`. The first one is in force.

    As in Kafka's ConfigHelper, synonyms before the setting itself are left out: if only log.retention.hours
    is set, log.retention.ms has no synonyms.
    """
    found = list(_broker_values(broker, _SYNONYMS.get(name, (name,))))
    while found and found[0].name != name:
        found.pop(0)
    return tuple(found)


def _broker_values(broker: BrokerConfig, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
    for source in (
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
    ):
        layer = broker.layer(source)
        yield from (ConfigSynonym(name, layer[name], source) for name in names if name in layer)
    for name in names:
        default = broker.definition(name).default
        if default is not None:
            yield ConfigSynonym(name, render(default), ConfigSource.DEFAULT)


def entry(definition: ConfigDefinition, value: str | None, synonyms: Synonyms) -> ConfigEntry:
    """Return the setting with its value and its synonyms, of which the first is in force."""
    return ConfigEntry(
        definition.name,
        None if definition.sensitive else value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        definition.read_only,
        definition.sensitive,
        synonyms,
        definition.type,
        definition.documentation,
    )
