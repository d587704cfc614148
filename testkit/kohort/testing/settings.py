"""A test's settings: those given by keyword over defaults that suit tests."""

from collections.abc import Iterable, Mapping

from kohort.broker.config import BrokerConfig, ConfigError, load_config, render

SettingValue = bool | int | float | str | Iterable[str]

DEFAULTS: Mapping[str, SettingValue] = {
    "group.initial.rebalance.delay.ms": 0,  # A group begins with its first member.
    "group.min.session.timeout.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.share.min.session.timeout.ms": 1,
    "group.share.min.heartbeat.interval.ms": 1,
    "group.share.min.record.lock.duration.ms": 1000,
    "offsets.topic.num.partitions": 1,  # Of which each is a folder to make.
    "kohort.group.events.enable": False,  # No topic in the list that the test has not made.
    "connections.max.idle.ms": -1,  # A week that is passed at once disconnects nobody.
}


def broker_config(settings: Mapping[str, SettingValue]) -> BrokerConfig:
    """Return the broker's settings. A name has dots, or underscores where a keyword cannot have dots.

    Raises: ConfigError with one line that says which is wrong, and what would be right.
    """
    texts = {name: text_of(name, value) for name, value in DEFAULTS.items()}
    texts |= {dotted(name): text_of(name, value) for name, value in settings.items()}
    return load_config(None, list(texts.items()))


def dotted(name: str) -> str:
    """Return a setting's name as Kafka writes it."""
    return name if "." in name else name.replace("_", ".")


def text_of(name: str, value: object) -> str:
    """Return a setting's value as Kafka writes it. Raises: ConfigError."""
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
