"""The command tree, and how errors become one line and an exit code.

A subcommand's module is imported when it is called, not before.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from kohort.cli.output import print_error
from kohort.client.errors import KohortError

PROBLEM = 1
INTERRUPTED = 130

_COMMANDS = {
    "serve": ("kohort.cli.serve", "serve", "Run a broker."),
    "topics": ("kohort.cli.topics", "topics", "List, create, describe, alter and delete topics."),
    "produce": ("kohort.cli.produce", "produce", "Write lines to a topic, from standard input or a file."),
    "consume": ("kohort.cli.consume", "consume", "Read topics, alone or as a member of a group."),
    "groups": (
        "kohort.cli.groups",
        "groups",
        "List consumer groups, and describe their offsets and members.",
    ),
    "log": ("kohort.cli.log", "log", "Dump and verify the files of a data folder."),
    "spark": ("kohort.cli.spark", "spark", "Ingest topics into tables with Spark, and tell groups of it."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and one line about each without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kohort", prog_name="kohort", message="%(prog)s %(version)s")
def kohort() -> None:
    """kohort: a Kafka-compatible broker, and a command line for it and for Apache Kafka.

    Begin with `kohort serve`. The other commands talk to a broker at --bootstrap-server, by default
    127.0.0.1:9092 or what KOHORT_BOOTSTRAP_SERVERS says.
    """


def run(argv: Sequence[str]) -> int:
    """Return the exit code of a command line; every failure is one line on standard error."""
    try:
        code = kohort.main(list(argv), prog_name="kohort", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (click.ClickException, KohortError) as error:
        print_error(error)
        return PROBLEM
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0
