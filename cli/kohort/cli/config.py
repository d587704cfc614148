"""`kohort config`: settings of brokers, topics and groups, and a broker's file before its start."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from kohort.cli.completion import (
    ALL_BROKERS,
    complete_brokers_or_all,
    complete_groups,
    complete_settings,
    complete_topics,
)
from kohort.cli.config_changes import OWN, check_names
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, key_values, open_admin, require_running
from kohort.cli.output import print_json, print_line
from kohort.client import Admin, BrokerError, ConfigEntry, ResourceType
from kohort.protocol.errors import ErrorCode

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@click.group(cls=CommandGroup)
def config() -> None:
    """Show, alter and check settings."""


def _thing_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --topic, --group and --broker, of which one at most is given."""
    for option in (
        click.option(
            "--broker",
            metavar="ID",
            help="The settings of this broker; `all`: of every broker.",
            shell_complete=complete_brokers_or_all,
        ),
        click.option("--group", "-g", help="The settings of a group.", shell_complete=complete_groups),
        click.option("--topic", "-t", help="The settings of a topic.", shell_complete=complete_topics),
    ):
        command = option(command)
    return command


def _thing(
    admin: Admin, topic: str | None, group: str | None, broker: str | None
) -> tuple[ResourceType, str]:
    """Return what the options name, the first broker if none. Raises: click.UsageError."""
    if sum(each is not None for each in (topic, group, broker)) > 1:
        raise click.UsageError("give one of --topic, --group and --broker")
    if topic is not None:
        admin.describe_topics(topic)
        return ResourceType.TOPIC, topic
    if group is not None:
        return ResourceType.GROUP, group
    if broker is None:
        nodes = sorted(each.node_id for each in admin.describe_cluster().nodes)
        return ResourceType.BROKER, str(nodes[0])
    if broker != ALL_BROKERS and not broker.isdecimal():
        raise click.UsageError(f"--broker {broker!r} is not a broker's id, nor `all`")
    if broker != ALL_BROKERS:
        require_running(admin, int(broker))
    return ResourceType.BROKER, "" if broker == ALL_BROKERS else broker


@config.command()
@_thing_options
@click.option("--all", "with_defaults", is_flag=True, help="Also print defaults.")
@json_option
@bootstrap_option
def show(
    *,
    topic: str | None,
    group: str | None,
    broker: str | None,
    with_defaults: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Print the settings of a topic, a group or a broker; without options of the broker.

    \b
    kohort config show --all
    kohort config show --topic orders --json
    """
    with open_admin(servers) as admin:
        kind, name = _thing(admin, topic, group, broker)
        found = admin.describe_configs(kind, name)
    shown = {each: entry for each, entry in sorted(found.items()) if with_defaults or entry.source in OWN}
    if as_json:
        print_json([_entry_json(each) for each in shown.values()])
        return
    for each, entry in shown.items():
        value = "(hidden)" if entry.value is None else entry.value
        source = "" if entry.source in OWN and not with_defaults else f"  ({_words(entry)})"
        print_line(f"{each}={value}{source}")
    if not shown:
        print_line("Nothing is set; --all shows the defaults.", err=True)


def _words(entry: ConfigEntry) -> str:
    return entry.source.name.removesuffix("_CONFIG").lower().replace("_", " ")


def _entry_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


@config.command("set")
@click.argument(
    "settings", metavar="NAME=VALUE...", nargs=-1, required=True, shell_complete=complete_settings
)
@_thing_options
@json_option
@bootstrap_option
def set_(
    *,
    settings: tuple[str, ...],
    topic: str | None,
    group: str | None,
    broker: str | None,
    as_json: bool,
    servers: str,
) -> None:
    """Change settings of a topic, a group or a broker; they survive restarts.

    \b
    kohort config set retention.ms=86400000 --topic orders
    kohort config set max.connections=500 --broker all
    """
    values = key_values(settings, "NAME=VALUE:")
    with open_admin(servers) as admin:
        kind, name = _thing(admin, topic, group, broker)
        admin.alter_configs(kind, name, values=values)
    if as_json:
        print_json([{kind.name.lower(): name or ALL_BROKERS, "set": values}])
    else:
        print_line(f"Set {', '.join(values)} for {_name_of(kind, name)}.")


@config.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_settings)
@_thing_options
@json_option
@bootstrap_option
def unset(
    *,
    names: tuple[str, ...],
    topic: str | None,
    group: str | None,
    broker: str | None,
    as_json: bool,
    servers: str,
) -> None:
    """Reset settings to their defaults."""
    with open_admin(servers) as admin:
        kind, name = _thing(admin, topic, group, broker)
        check_names(names, _known(admin, kind, name), f"a {kind.name.lower()}")
        admin.alter_configs(kind, name, delete=names)
    if as_json:
        print_json([{kind.name.lower(): name or ALL_BROKERS, "unset": names}])
    else:
        print_line(f"Took back {', '.join(names)} of {_name_of(kind, name)}.")


def _known(admin: Admin, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """Return the settings that such a thing may have; that for all brokers tells only what is set."""
    if kind is ResourceType.BROKER and not name:
        name = str(admin.describe_cluster().nodes[0].node_id)
    return admin.describe_configs(kind, name)


def _name_of(kind: ResourceType, name: str) -> str:
    return f"{kind.name.lower()} {name}" if name else "all brokers"


@config.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as `kohort serve` takes it."
)
@json_option
def check(file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Check a file for `kohort serve --config` without starting a broker, and print what it sets.

    \b
    kohort config check kohort.toml
    kohort config check server.properties --set num.partitions=6
    """
    from kohort.broker.config import ConfigError
    from kohort.broker.config.serve import changed_settings, load_serve_config

    pairs = tuple(key_values(settings, "--set").items())
    if file is None and not pairs:
        raise click.UsageError("nothing to check: give a file, or --set")
    try:
        loaded = load_serve_config(file, pairs)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    changed = {**loaded.flags, **changed_settings(loaded.config)}
    if as_json:
        print_json(changed)
        return
    for name, value in changed.items():
        print_line(f"{name}={value}")
    print_line("Nothing is wrong with it.", err=True)
