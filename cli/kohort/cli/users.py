"""`kohort users`: who may say by SCRAM who they are."""

import sys
from pathlib import Path

import click

from kohort.cli.completion import complete_users
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_json, print_line
from kohort.client.errors import ConfigurationError

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 4_096


@click.group(cls=CommandGroup)
def users() -> None:
    """List, add and remove SCRAM users."""


@users.command("list")
@json_option
@bootstrap_option
def list_users(*, as_json: bool, servers: str) -> None:
    """Print the users and the mechanisms of their passwords."""
    with open_admin(servers) as admin:
        found = admin.describe_users()
    if as_json:
        print_json([{"user": name, "iterations": dict(found[name])} for name in sorted(found)])
        return
    for name in sorted(found):
        print_line(f"{name}  {', '.join(sorted(found[name]))}")
    if not found:
        print_line("There are no users; kohort users add NAME makes one.", err=True)


@users.command()
@click.argument("name", shell_complete=complete_users)
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS),
    multiple=True,
    default=MECHANISMS,
    show_default=True,
    help="The SCRAM mechanism; may be repeated.",
)
@click.option("--iterations", type=click.IntRange(ITERATIONS, 16_384), default=ITERATIONS, show_default=True)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file whose first line is the password; without it, it is asked for, or read from a pipe.",
)
@json_option
@bootstrap_option
def add(
    *,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
    as_json: bool,
    servers: str,
) -> None:
    """Add a user, or change its password.

    \b
    kohort users add alice
    pass show kafka/alice | kohort users add alice --mechanism SCRAM-SHA-512
    """
    password = _password(password_file)
    with open_admin(servers) as admin:
        admin.set_user_password(name, password, mechanisms=mechanisms, iterations=iterations)
    if as_json:
        print_json({"user": name, "mechanisms": list(mechanisms)})
        return
    print_line(f"{name} has a password now, by {' and '.join(mechanisms)}.")


@users.command()
@click.argument("name", shell_complete=complete_users)
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS),
    multiple=True,
    help="Only the password of this mechanism.  [default: all]",
)
@json_option
@bootstrap_option
def remove(*, name: str, mechanisms: tuple[str, ...], as_json: bool, servers: str) -> None:
    """Remove a user's passwords.

    Connections that are open stay so, unless the broker has connections.max.reauth.ms.
    """
    with open_admin(servers) as admin:
        admin.delete_user(name, *mechanisms)
    if as_json:
        print_json({"user": name, "removed": list(mechanisms or MECHANISMS)})
        return
    by = f" by {' and '.join(mechanisms)}" if mechanisms else ""
    print_line(f"{name} has no password any more{by}.")


def _password(file: Path | None) -> str:
    """Return the first line of a file, of a pipe, or what is typed twice. Raises: ConfigurationError."""
    if file is not None:
        line = file.read_text(encoding="utf-8").split("\n", 1)[0]
    elif sys.stdin.isatty():
        line = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        line = sys.stdin.readline()
    password = line.rstrip("\r\n")
    if not password:
        raise ConfigurationError("the password is empty")
    return password
