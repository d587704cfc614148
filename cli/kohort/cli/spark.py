"""`kohort spark`: jobs on Spark. PySpark is imported when a job needs it."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from kohort.cli.client_settings import client_settings
from kohort.cli.completion import complete_groups
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, require_broker
from kohort.cli.output import print_json, print_line
from kohort.cli.progress import LoggedLines, StatusLine
from kohort.pipeline.delta import adding_package
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.servers import Servers
from kohort.protocol.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.pipeline.ingest import Comparison
    from kohort.pipeline.running import RunningQuery

PROBLEM = 1
LOOK_EVERY_S = 0.5
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Summary = TypeVar("Summary")
MISSING = "this takes PySpark, which is not installed. Install it with: pip install 'kohort[spark]'"


_COMMANDS = {
    "ingest": ("kohort.cli.spark_ingest", "ingest_command"),
    "analyse": ("kohort.cli.spark_jobs", "analyse"),
    "replay": ("kohort.cli.spark_jobs", "replay"),
    "audit": ("kohort.cli.spark_jobs", "audit"),
    "alerts": ("kohort.cli.spark_alerts", "alerts_command"),
}


class _Spark(CommandGroup):
    """The commands here, and those whose modules are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute = _COMMANDS[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Spark)
def spark() -> None:
    """Spark jobs: tables of topics with correct lag of the group, replays, audits, reports on groups."""


def spark_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --master, --memory and --conf."""
    conf = click.option(
        "--conf", "settings", multiple=True, metavar="NAME=VALUE", callback=_settings,
        help="A setting of Spark's; repeatable.",
    )  # fmt: skip
    memory = click.option("--memory", default="1g", show_default=True, help="Memory of Spark's driver.")
    master = click.option(
        "--master", default="local[*]", show_default=True,
        help="Spark's master; with spark-submit, set it there.",
    )  # fmt: skip
    return master(memory(conf(command)))


def _settings(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if not each.partition("=")[0] or "=" not in each:
            raise click.BadParameter(f"{each!r}: give NAME=VALUE")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


def cluster_at(servers: str) -> Servers:
    """Return the cluster of an option, with what --command-config says. Raises: as `require_broker` does."""
    return Servers(",".join(require_broker(servers)), dict(client_settings()))


def require_pyspark() -> None:
    """Return if PySpark is installed. Raises: click.ClickException that names the extra."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise click.ClickException(MISSING)


@contextmanager
def telling_errors() -> Iterator[None]:
    """Turn what the pipeline raises on purpose into one line."""
    try:
        yield
    except PipelineError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def spark_session(
    name: str,
    master: str,
    memory: str,
    settings: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
) -> Iterator["SparkSession"]:
    """A session for one job; `settings` have Spark's own names, and whose `spark.jars` have the `packages`.

    Without these Spark fetches the packages. Raises: click.ClickException without PySpark or Java, where
    Spark does not start, or if a query fails.
    """
    require_pyspark()
    wanted = dict(settings or {})
    if "spark.jars" not in wanted:
        wanted = reduce(adding_package, packages, wanted)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from kohort.pipeline.executors import require_executors
    from kohort.pipeline.session import local_session, quietly

    with telling_errors():
        try:
            session = local_session(name, master=master, memory=memory, settings=quietly(wanted, master))
        except Py4JJavaError as error:
            raise click.ClickException(f"Spark did not start: {java_cause(str(error))}") from None
        session.sparkContext.setLogLevel("ERROR")
        try:
            require_executors(session)
            yield session
        except PySparkException as error:
            raise click.ClickException(first_cause(str(error))) from None
        finally:
            session.sparkContext.setLogLevel("OFF")  # A task that is cut short writes pages about it.
            session.stop()


@contextmanager
def asked_to_stop() -> Iterator[Event]:
    """An event that Ctrl-C and SIGTERM set, while a query runs.

    PySpark's own handler raises in the midst of whatever the driver asks the JVM just then, which breaks
    their connection: nothing could be brought to its end after that.
    """
    asked = Event()
    former = {
        each: signal.signal(each, lambda _number, _frame: asked.set())
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


def follow(
    job: "RunningQuery[Summary]", begins: str, progress: Callable[[], str], until_s: float | None = None
) -> "Summary":
    """Return what a query has come to: when it has ended, when somebody wants it to, or its time is over.

    Meanwhile `progress` is shown: on a terminal in one line that changes, elsewhere, as in a log, a line now
    and then. `until_s` is a time of `time.monotonic`.
    """
    line = StatusLine(sys.stderr) if sys.stderr.isatty() else LoggedLines(sys.stderr)
    with asked_to_stop() as asked, job, line:
        line.show(begins)
        while not (asked.is_set() or (until_s is not None and time.monotonic() > until_s)):
            if job.wait(LOOK_EVERY_S):
                break
            line.show(printable(progress()))
        return job.stop()


def first_cause(text: str) -> str:
    """Return the line of a Spark error that says what our own code raised, else its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        name, colon, said = line.partition(": ")
        if colon and name.startswith("kohort.") and name.endswith("Error"):
            return said
    return lines[0] if lines else "the query failed"


def java_cause(text: str) -> str:
    """Return what the exception said that py4j tells of: the line behind its own."""
    told = [line.strip().removeprefix(": ") for line in text.splitlines() if line.lstrip().startswith(": ")]
    return told[0].partition(": ")[2] or told[0] if told else first_cause(text)


@spark.command()
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--group", required=True, help="The group that mirrors the checkpoint.", shell_complete=complete_groups
)
@click.option("--execute", is_flag=True, help="Change the group; without it nothing is changed.")
@click.option("--backwards", is_flag=True, help="Also let the group go back to the checkpoint.")
@json_option
@bootstrap_option
def reconcile(
    *, checkpoint: str, group: str, execute: bool, backwards: bool, as_json: bool, servers: str
) -> None:
    """Compare a group with a Spark checkpoint, and bring the group to it.

    Spark's checkpoint is the truth. The group must not have live members.

    \b
    kohort spark reconcile /data/flights/_checkpoint --group spark
    kohort spark reconcile /data/flights/_checkpoint --group spark --execute --backwards
    """
    from kohort.pipeline.ingest.reconciling import reconcile as compare_or_change

    cluster = cluster_at(servers)
    with telling_errors():
        found = compare_or_change(checkpoint, group, cluster, execute=execute, backwards=backwards)
    if as_json:
        print_json(_rows_as_json(found))
        return
    for line in _rows(found):
        print_line(line)
    if not execute and any(each.step.value != "stay" for each in found.rows):
        print_line("Nothing was changed: --execute does it.", err=True)


def _rows(found: "Comparison") -> Iterator[str]:
    width = max([len("TOPIC"), *(len(each.partition.topic) for each in found.rows)])
    yield f"{'TOPIC':<{width}}  PARTITION  {'CHECKPOINT':>12}  {'GROUP':>12}  STEP"
    for each in found.rows:
        group = "-" if each.group is None else str(each.group)
        yield (
            f"{each.partition.topic:<{width}}  {each.partition.partition:<9}  {each.checkpoint:>12}"
            f"  {group:>12}  {each.step.value}"
        )


def _rows_as_json(found: "Comparison") -> list[dict[str, object]]:
    return [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "checkpoint": each.checkpoint,
            "group": each.group,
            "step": each.step.value,
        }
        for each in found.rows
    ]


def say(text: str) -> None:
    """Write a line for people to standard error, where somebody looks."""
    if sys.stderr.isatty():
        print_line(text, err=True)
