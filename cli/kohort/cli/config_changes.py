"""What is set of a topic, a broker or a group; shared by `kohort topics` and `kohort config`."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import click

from kohort.client import ConfigEntry, ConfigSource

OWN = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigSource.GROUP_CONFIG,
    }
)


def own_configs(configs: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    """Return what was set for a topic itself."""
    return {
        name: entry.value
        for name, entry in sorted(configs.items())
        if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def check_names(names: Iterable[str], configs: Mapping[str, ConfigEntry], what: str) -> None:
    """Return if all are settings of such a thing: a broker takes back without a word what was never there.

    Raises: click.ClickException with the nearest name.
    """
    for name in names:
        if name not in configs:
            nearest = get_close_matches(name, configs, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise click.ClickException(f"{what} has no setting {name!r}{hint}")
