"""docs/command-line.md against the commands that there are."""

import re
from pathlib import Path

import click

from kohort.cli.commands import kohort

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
WHOLE = {"spark"}  # It has a page of its own.


def commands(group: click.Group, before: str) -> list[str]:
    """Return every command below a group, as it is typed."""
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group) and name not in WHOLE:
            found += commands(command, f"{before} {name}")
        else:
            found.append(f"{before} {name}")
    return found


def test_the_table_has_every_command_and_no_other() -> None:
    told = re.findall(r"^\| `(kohort [a-z -]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(commands(kohort, "kohort"))
