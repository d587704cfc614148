"""The bounds of a group's settings, which the broker's settings give, as in Kafka's GroupConfig.

A new value outside its bounds is refused. An old value outside newer bounds counts as the nearest bound.
"""

from collections.abc import Mapping
from typing import Protocol

from kohort.broker.config.values import ConfigError, ConfigValue


class BrokerValues(Protocol):
    """The broker's settings, by dotted name."""

    def value(self, name: str) -> ConfigValue:
        """Return the value of one setting."""
        ...


BOUNDED = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.assignment.interval.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.assignment.interval.ms",
)
"""Settings of groups whose bounds are the broker's `group.KIND.min.REST` and `group.KIND.max.REST`."""
KINDS = ("consumer", "share", "streams")
BOUNDS: dict[str, tuple[str | None, str | None]] = {
    **{
        name: (f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")
        for name in BOUNDED
        for kind, _, rest in [name.partition(".")]
    },
    "streams.task.offset.interval.ms": ("group.streams.min.task.offset.interval.ms", None),
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
}
"""The broker's settings for the lower and the upper bound of each, if any."""
LEAST, MOST = 0, 2**31 - 1


def check_broker(broker: BrokerValues) -> None:
    """Check the broker's defaults for groups. Raises: ConfigError for a value outside its bounds."""
    for name, (low, high) in bounds(broker).items():
        least, most = BOUNDS[name]
        if low > high:
            raise ConfigError(f"{most} must be greater than or equal to {least}")
        value = _number(broker, f"group.{name}")
        if not low <= value <= high:
            raise ConfigError(f"group.{name}={value} must be {_words(name, low, high)}")
    for kind in KINDS:
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if _number(broker, session) <= _number(broker, heartbeat):
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def check_group(broker: BrokerValues, overrides: Mapping[str, ConfigValue]) -> None:
    """Check a group's settings, by dotted name. Raises: ConfigError for a value outside its bounds."""
    for name, (low, high) in bounds(broker).items():
        if name in overrides:
            value = overrides[name]
            assert isinstance(value, int)
            if not low <= value <= high:
                raise ConfigError(f"{name}={value} must be {_words(name, low, high)}")


def bounds(broker: BrokerValues) -> dict[str, tuple[int, int]]:
    """Return the lower and the upper bound by the name of the group's setting."""
    return {
        name: (
            LEAST if least is None else _number(broker, least),
            MOST if most is None else _number(broker, most),
        )
        for name, (least, most) in BOUNDS.items()
    }


def _words(name: str, low: int, high: int) -> str:
    least, most = BOUNDS[name]
    if most is None:
        return f"at least {least}={low}"
    return f"at most {most}={high}" if least is None else f"from {least}={low} to {most}={high}"


def _number(broker: BrokerValues, name: str) -> int:
    value = broker.value(name)
    assert isinstance(value, int)
    return value
