"""docs/command-line.md against the commands that there are."""

import re
from pathlib import Path

import click

from kohort.cli.commands import kohort

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
WHOLE = {"spark"}  # It has a page of its own.


# Those that serve until they are stopped, one that prints a shell's script, and one that prints a line.
NO_RESULT = {
    "kohort serve",
    "kohort queue run",
    "kohort queue track",
    "kohort registry",
    "kohort region coordinate",
    "kohort region run",
    "kohort observe",
    "kohort completion",
    "kohort version",
}


def commands(group: click.Group, before: str) -> dict[str, click.Command]:
    """Return every command below a group, by what is typed."""
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group) and name not in WHOLE:
            found |= commands(command, f"{before} {name}")
        else:
            found[f"{before} {name}"] = command
    return found


def test_the_table_has_every_command_and_no_other() -> None:
    told = re.findall(r"^\| `(kohort [a-z -]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(commands(kohort, "kohort"))


def test_every_result_is_to_be_had_as_json() -> None:
    without = {
        typed
        for typed, command in commands(kohort, "kohort").items()
        if "--json" not in {option for each in command.params for option in each.opts}
    }
    assert without - {f"kohort {each}" for each in WHOLE} == NO_RESULT
