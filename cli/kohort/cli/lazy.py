"""Groups of commands: who is meant by a slip of the pen, which broker, and what is imported when."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

SERVERS = "servers"


class ServersOption(click.Option):
    """`--bootstrap-server`, which may stand before the command as well: `kohort -b HOST:PORT topics list`."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return what stands behind the command, or before it, or in the environment."""
        given = servers_before(ctx)
        if self.name not in opts and given is not None:
            return given, ParameterSource.COMMANDLINE
        return super().consume_value(ctx, opts)


def servers_before(ctx: click.Context) -> str | None:
    """Return the addresses that stand before the first command, or None."""
    servers = ctx.find_root().params.get(SERVERS)
    assert servers is None or isinstance(servers, str)
    return servers


class CommandGroup(click.Group):
    """A group that suggests the nearest name, and hands on the broker that was named before it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was named.

        Raises: click.UsageError with the nearest name there is, or for a broker that it does not ask.
        """
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            nearest = get_close_matches(name, names, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        found = super().resolve_command(ctx, args)
        _, command, _ = found
        if servers_before(ctx) is not None and command is not None and not _may_ask(command):
            raise click.UsageError(f"{ctx.command_path} {name} takes no --bootstrap-server", ctx)
        return found


def _may_ask(command: click.Command) -> bool:
    """Whether a command, or one in its group, asks a broker."""
    return isinstance(command, click.Group) or any(each.name == SERVERS for each in command.params)


class Later(NamedTuple):
    """A command that is imported when it is called: its module, its name there, and one line about it."""

    module: str
    attribute: str
    text: str


class LazyGroup(CommandGroup):
    """A group that knows its commands' names and one line about each without importing them."""

    def __init__(self, *args: object, later: Mapping[str, Later], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # They are click's own.
        self._later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        return list(self._later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        found = self._later.get(cmd_name)
        if found is None:
            return None
        command = getattr(import_module(found.module), found.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.text) for name, each in self._later.items()])
