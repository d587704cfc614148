"""The settings of a test's broker: given settings over defaults for tests."""

from collections.abc import Iterable, Mapping

from kohort.broker.config import BrokerConfig, ConfigError, load_config, render

SettingValue = bool | int | float | str | Iterable[str]

DEFAULTS: Mapping[str, SettingValue] = {
    "group.initial.rebalance.delay.ms": 0,  # The first member starts the group at once.
    "group.min.session.timeout.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.share.min.session.timeout.ms": 1,
    "group.share.min.heartbeat.interval.ms": 1,
    "group.share.min.record.lock.duration.ms": 1000,
    "offsets.topic.num.partitions": 1,  # Each is a folder.
    "kohort.group.events.enable": False,  # Tests list only their own topics.
    "connections.max.idle.ms": -1,  # Advancing the time must not disconnect clients.
}


def broker_config(settings: Mapping[str, SettingValue]) -> BrokerConfig:
    """Return the broker's settings. Names have dots, or underscores as keyword arguments.

    Raises: ConfigError with the wrong setting and its allowed values.
    """
    texts = {name: text_of(name, value) for name, value in DEFAULTS.items()}
    texts |= {dotted(name): text_of(name, value) for name, value in settings.items()}
    return load_config(None, list(texts.items()))


def dotted(name: str) -> str:
    """Return a setting's name in Kafka's form."""
    return name if "." in name else name.replace("_", ".")


def text_of(name: str, value: object) -> str:
    """Return a setting's value in Kafka's form. Raises: ConfigError."""
    if isinstance(value, bool | int | float | str):
        text = render(value)
    elif isinstance(value, Iterable):
        text = render(tuple(str(each) for each in value))
    else:
        raise ConfigError(
            f"Invalid value {value!r} for configuration {name}: it must be text, a number or a list"
        )
    assert text is not None, name
    return text
