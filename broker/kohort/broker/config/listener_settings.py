"""Settings of one listener: `listener.name.NAME.SETTING`, with the name in lower case, as in Kafka.

The broker's settings carry them as the lines of one internal setting, `CARRIER`.
Source: Kafka's ListenerName.configPrefix, KIP-103.
"""

import re
from collections.abc import Mapping

from kohort.broker.config.values import ConfigError

PREFIX = "listener.name."
CARRIER = "kohort.listener.settings"
JAAS = "sasl.jaas.config"
MECHANISMS = "sasl.enabled.mechanisms"

_KNOWN = re.compile(
    r"listener\.name\.[a-z0-9_-]+\."
    r"(?:sasl\.enabled\.mechanisms|(?:plain|scram-sha-256|scram-sha-512|oauthbearer)\.sasl\.jaas\.config)"
)


def taken_apart(texts: dict[str, str | None]) -> dict[str, str | None]:
    """Return the settings, with those of single listeners in `CARRIER`. Raises: ConfigError."""
    kept = {name: text for name, text in texts.items() if not name.startswith(PREFIX)}
    lines = []
    for name, text in texts.items():
        if name.startswith(PREFIX):
            require_known(name)
            lines.append(f"{name}={' '.join((text or '').split())}")
    if lines:
        kept[CARRIER] = "\n".join([*filter(None, [kept.get(CARRIER)]), *lines])
    return kept


def require_known(name: str) -> None:
    """Raise ConfigError for an unknown setting of a listener."""
    if _KNOWN.fullmatch(name) is None:
        raise ConfigError(
            f"{name} is not a setting of a listener: there are listener.name.NAME.sasl.enabled.mechanisms "
            f"and "
            "listener.name.NAME.MECHANISM.sasl.jaas.config, in lower case"
        )


def of_listener(settings: str | None, name: str) -> Mapping[str, str]:
    """Return the settings of the listener `name`, without prefix. `settings` is the text of `CARRIER`."""
    prefix = f"{PREFIX}{name.lower()}."
    found = {}
    for line in (settings or "").splitlines():
        setting, _, text = line.partition("=")
        if setting.startswith(prefix):
            found[setting.removeprefix(prefix)] = text
    return found


def named_listeners(settings: str | None) -> set[str]:
    """Return the names of the listeners with settings, in lower case."""
    lines = (settings or "").splitlines()
    return {line.removeprefix(PREFIX).partition(".")[0] for line in lines}
