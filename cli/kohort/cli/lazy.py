"""Groups of commands that import each when it is called, and know what a slip of the pen has meant."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click


class Later(NamedTuple):
    """A command that is imported when it is called: its module, its name there, and one line about it."""

    module: str
    attribute: str
    text: str


class LazyGroup(click.Group):
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was named. Raises: click.UsageError with the nearest name there is."""
        name = args[0]
        if name in self._later or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        nearest = get_close_matches(name, self._later, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.text) for name, each in self._later.items()])
