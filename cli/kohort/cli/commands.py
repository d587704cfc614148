"""The command tree, and how errors become one line and an exit code.

0: it is done. 1: it failed, or something that was looked at is wrong. 2: a wrong use. 130: interrupted.
"""

import sys
from collections.abc import Sequence

import click

from kohort.cli.lazy import SERVERS, Later, LazyGroup
from kohort.cli.output import print_error, print_line
from kohort.client.errors import KohortError

PROBLEM = 1
INTERRUPTED = 130

_COMMANDS = {
    "serve": Later("kohort.cli.serve", "serve", "Run a broker."),
    "topics": Later("kohort.cli.topics", "topics", "List, create, describe, alter and delete topics."),
    "produce": Later(
        "kohort.cli.produce", "produce", "Write lines to a topic, from standard input or a file."
    ),
    "consume": Later("kohort.cli.consume", "consume", "Read topics, alone or as a member of a group."),
    "groups": Later(
        "kohort.cli.groups",
        "groups",
        "List, describe, watch, explain and reset consumer groups.",
    ),
    "observe": Later(
        "kohort.cli.observe", "observe", "Follow any Kafka cluster, and say why its groups rebalance."
    ),
    "share-groups": Later(
        "kohort.cli.share_groups", "share_groups", "List, describe, reset and delete share groups."
    ),
    "queue": Later("kohort.cli.queue", "queue", "Deliver records one by one, each until it is acknowledged."),
    "forward": Later("kohort.cli.forward", "forward", "Push topics to services over HTTP or gRPC."),
    "acls": Later("kohort.cli.acls", "acls", "List, add and remove access control entries."),
    "registry": Later("kohort.cli.registry", "registry", "Serve a schema registry for any Kafka."),
    "region": Later("kohort.cli.region", "region", "Have consumers checkpoint and reset together."),
    "cluster": Later("kohort.cli.cluster", "cluster", "Tell of the cluster and its brokers."),
    "config": Later("kohort.cli.config", "config", "Show, alter and check settings."),
    "quotas": Later(
        "kohort.cli.quotas", "quotas", "List, set and remove quotas of users, client ids and addresses."
    ),
    "users": Later("kohort.cli.users", "users", "List, add and remove users of SCRAM."),
    "doctor": Later("kohort.cli.doctor", "doctor", "Diagnose why clients cannot connect."),
    "wire": Later(
        "kohort.cli.wire", "wire", "Show requests and answers byte by byte: of hex, a capture, or live."
    ),
    "log": Later("kohort.cli.log", "log", "Dump and verify the files of a data folder."),
    "spark": Later(
        "kohort.cli.spark", "spark", "Ingest topics into tables with Spark, and tell groups of it."
    ),
    "completion": Later("kohort.cli.completion", "completion", "Print what completes commands in a shell."),
    "version": Later("kohort.cli.version", "version", "Print the version of kohort and of Python."),
}


def _print_version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    """Print the version and end the command, where --version asks for it."""
    if asked and not context.resilient_parsing:
        from kohort.cli.version import describe_version

        print_line(describe_version())
        context.exit()


@click.group(cls=LazyGroup, later=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version of kohort and of Python.",
)
@click.option(
    "--bootstrap-server",
    "--bootstrap-servers",
    "-b",
    SERVERS,
    metavar="HOST:PORT[,...]",
    help="Bootstrap servers. The option may also follow the command.",
)
def kohort(servers: str | None) -> None:
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
    except OSError as error:
        print_line(f"kohort: {_os_words(error)}", err=True)
        return PROBLEM
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _os_words(error: OSError) -> str:
    """Return the system's words without its number: `data: No space left on device`."""
    words = error.strerror or str(error)
    return words if error.filename is None else f"{error.filename}: {words}"
