"""How commands print: what came from the wire is shown and never obeyed."""

import json
import os
import sys
from typing import NamedTuple

import click

from kohort.client.errors import KohortError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.printable import printable, printable_json


def print_line(text: str = "", *, err: bool = False) -> None:
    """Print one line, whatever the names in it are: no line break or escape sequence in them is obeyed."""
    click.echo(printable(text), err=err)


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    print_encoded(json.dumps(value, indent=2, ensure_ascii=False))


def print_encoded(text: str | bytes) -> None:
    """Print what is JSON already."""
    click.echo(printable_json(text if isinstance(text, str) else text.decode()))


def print_error(error: click.ClickException | KohortError) -> None:
    """Print in one line what went wrong; behind it the error code, where a broker answered with one."""
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    code, separator, rest = text.partition(": ")
    if separator and code in ErrorCode.__members__:
        text = f"{rest} ({code})" if isinstance(error, KohortError) else rest
    print_line(f"kohort: {text}", err=True)


def confirm(question: str) -> bool:
    """Return whether whoever is asked says yes; where nobody can answer, that is no."""
    try:
        return click.confirm(printable(question), err=True)
    except click.Abort:
        click.echo(err=True)
        return False


def print_file(text: str) -> None:
    """Print a file as it is, so that it can be read back; but not to a terminal, which would obey it."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    for line in text.splitlines():
        print_line(line)


def ask_before(question: str, *, yes: bool, unnamed: bool = False) -> None:
    """Return if it may be done. Raises: click.ClickException if not.

    At a terminal it is asked, unless `yes` was said. A script that names what it deletes has said it;
    what is `unnamed`, as with --all-groups, takes --yes there.
    """
    if yes or (not unnamed and not sys.stdin.isatty()):
        return
    if not confirm(question):
        raise click.ClickException("cancelled; nothing changed. --yes answers the question")


class Coloured(NamedTuple):
    """Text in a colour, where there is a terminal."""

    text: str
    colour: str


def print_parts(*parts: str | Coloured) -> None:
    """Print one line of several parts, coloured where standard output is a terminal without NO_COLOR."""
    has_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    shown = ""
    for part in parts:
        if isinstance(part, Coloured):
            text = printable(part.text)
            shown += click.style(text, fg=part.colour) if has_colours else text
        else:
            shown += printable(part)
    click.echo(shown)


def clear_terminal() -> None:
    """Have the next line stand at the top of the terminal."""
    click.echo("\x1b[H\x1b[J", nl=False)


def print_script(text: str) -> None:
    """Print a script of ours, of several lines, as it is."""
    click.echo(text)
