"""`kohort cluster wait`: returns once the cluster is whole."""

import time
from collections.abc import Iterator

import click

from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_error, print_json, print_line
from kohort.client import Admin, BrokerError, ItemsError, NetworkError, RequestTimeoutError
from kohort.client.admin_values import PartitionDetails

LOOK_SECONDS = 0.5
SHOWN = 5


@click.command()
@click.option(
    "--healthy",
    is_flag=True,
    default=True,
    help="Until every partition has a leader and every replica is in sync.  [default]",
)
@click.option("--brokers", type=click.IntRange(1), help="Also wait until this many brokers run.")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Fail after that time, with exit code 1 and what is missing; 0 looks once.",
)
@json_option
@bootstrap_option
def wait(*, healthy: bool, brokers: int | None, timeout_seconds: float, as_json: bool, servers: str) -> None:
    """Return once the cluster is healthy: all brokers run, every partition is led, every replica is in sync.

    \b
    kohort cluster wait --healthy --timeout 60

    In a rolling restart: the next broker may be stopped when this has returned.
    """
    deadline = time.monotonic() + timeout_seconds
    problems = _looked(servers, brokers)
    while problems and time.monotonic() < deadline:
        time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        problems = _looked(servers, brokers)
    if as_json:
        print_json({"healthy": not problems, "problems": problems})
    elif problems:
        print_error(click.ClickException(f"the cluster is not healthy after {timeout_seconds:g} s:"))
        for each in problems:
            print_line(f"  {each}", err=True)
    else:
        print_line("The cluster is healthy.")
    if problems:
        raise click.exceptions.Exit(1)


def _looked(servers: str, brokers: int | None) -> list[str]:
    """Return in words what is missing; nothing where all is well."""
    try:
        with open_admin(servers) as admin:
            return list(_problems(admin, brokers))
    except (NetworkError, RequestTimeoutError) as error:
        return [f"no broker answers: {error}"]
    except ItemsError as error:
        return [f"topics cannot be described: {error}"]
    except BrokerError as error:
        if not error.retriable:
            raise
        return [str(error)]


def _problems(admin: Admin, brokers: int | None) -> Iterator[str]:
    found = admin.describe_cluster()
    live = {each.node_id for each in found.nodes}
    if brokers is not None and len(live) < brokers:
        yield f"{len(live)} of {brokers} brokers run: {_listed(live)}"
    states = list(_partitions(admin))
    gone = {node_id for _, each in states for node_id in each.replicas} - live
    if gone:
        yield f"brokers that hold replicas do not run: {_listed(gone)}"
    leaderless = [place for place, each in states if each.leader not in live]
    if leaderless:
        yield f"{len(leaderless)} partitions have no leader: {_some(leaderless)}"
    behind = [place for place, each in states if not set(each.replicas) <= set(each.isr)]
    if behind:
        yield f"{len(behind)} partitions have replicas that are not in sync: {_some(behind)}"


def _partitions(admin: Admin) -> Iterator[tuple[str, PartitionDetails]]:
    names = admin.list_topics(include_internal=True)
    if names:
        for name, topic in admin.describe_topic_partitions(*names).items():
            for each in topic.partitions:
                yield f"{name}-{each.partition}", each


def _listed(ids: set[int]) -> str:
    return ", ".join(map(str, sorted(ids))) or "none"


def _some(places: list[str]) -> str:
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return f"{', '.join(places[:SHOWN])}{more}"
