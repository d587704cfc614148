"""`kohort observe`: follows a Kafka cluster from beside it, and says why its groups rebalance."""

import os
import signal
from pathlib import Path
from types import FrameType

import click

from kohort.broker.http.mcp_sdk import HOW_TO_INSTALL, is_installed
from kohort.cli.observe_targets import targets
from kohort.cli.observer_site import ObserverSite
from kohort.cli.options import bootstrap_option
from kohort.cli.output import print_line
from kohort.cli.queue_options import log_to_standard_error
from kohort.cli.status_server import StatusServer
from kohort.observe.alerting import Alerting
from kohort.observe.observer import Observer
from kohort.observe.observers import Observers, SameClusterError
from kohort.observe.pace import Limits
from kohort.observe.pages import Pages, wall_ms
from kohort.observe.site import Site
from kohort.observe.store import StoreError
from kohort.observe.webhooks import Webhook, webhook_of
from kohort.protocol.config_providers import resolve

DEFAULT_HTTP = "127.0.0.1:9645"
_DEFAULTS = Limits()
_MEBIBYTE = 1 << 20


def default_store() -> Path:
    """Return where the history is kept unless --store says so: in the user's folder for states."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kohort" / "observe.db"


@click.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the history.  [default: ~/.local/state/kohort/observe.db]",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    default=DEFAULT_HTTP,
    show_default=True,
    help="Serve the live page, /api, /metrics and /health there.",
)
@click.option(
    "--interval",
    type=click.FloatRange(1, 3_600),
    default=_DEFAULTS.interval_seconds,
    show_default=True,
    help="Seconds between looks at topics and at the ends of logs.",
)
@click.option(
    "--calls-per-second",
    type=click.FloatRange(0.1, 100),
    default=_DEFAULTS.calls_per_second,
    show_default=True,
    help="Ask the cluster at most so often, besides reading __consumer_offsets.",
)
@click.option(
    "--retention-days",
    type=click.FloatRange(0.01),
    default=_DEFAULTS.retention_days,
    show_default=True,
    help="Forget what is older.",
)
@click.option(
    "--retention-mib",
    type=click.IntRange(1),
    default=_DEFAULTS.retention_bytes // _MEBIBYTE,
    show_default=True,
    help="Forget the oldest events while all take more. The state of the groups comes on top.",
)
@click.option(
    "--cluster",
    multiple=True,
    metavar="NAME=HOST:PORT[,...]",
    help="Follow this cluster under this name; may be given several times, instead of --bootstrap-server.",
)
@click.option(
    "--cluster-config",
    multiple=True,
    metavar="NAME=FILE",
    help="Settings of a client for one --cluster, instead of those of --command-config.",
)
@click.option(
    "--webhook",
    multiple=True,
    metavar="KIND=URL",
    help="Tell a storm, a stuck partition, a member that flaps: slack=URL or alertmanager=URL. "
    "The URL may be ${env:NAME} or ${file:PATH}.",
)
@click.option(
    "--mcp",
    is_flag=True,
    help="Let agents ask about groups at /mcp, by the Model Context Protocol. Needs the extra mcp.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def observe(
    *,
    store: Path | None,
    http: str,
    interval: float,
    calls_per_second: float,
    retention_days: float,
    retention_mib: int,
    cluster: tuple[str, ...],
    cluster_config: tuple[str, ...],
    webhook: tuple[str, ...],
    mcp: bool,
    quiet: bool,
    servers: str,
) -> None:
    """Follow a cluster's groups until SIGINT or SIGTERM, and say why they rebalanced.

    Any Kafka since 2.4. It reads __consumer_offsets without a group, commits nothing and changes nothing.
    Ended in whatever way, it goes on where it was.

    \b
    kohort observe --bootstrap-server prod:9092
    kohort groups explain billing --http 127.0.0.1:9645

    \b
    kohort observe --cluster prod=prod:9092 --cluster test=test:9092
    kohort groups explain billing --http 127.0.0.1:9645/prod
    """
    if mcp and not is_installed():
        raise click.UsageError(f"--mcp: {HOW_TO_INSTALL}")
    found = targets(servers, cluster, cluster_config)
    endpoints = [_endpoint(each) for each in webhook]
    log_to_standard_error(quiet=quiet)
    limits = Limits(interval, calls_per_second, retention_days, retention_mib * _MEBIBYTE)
    path = store or default_store()
    observers = [Observer(each, path, limits) for each in found]
    every = Observers(observers)

    def stop(signum: int, frame: FrameType | None) -> None:
        every.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    alerting = Alerting(observers, endpoints, wall_ms)
    pages = Site(observers, alerting=alerting) if cluster else Pages(observers[0], alerting=alerting)
    names = [each.name for each in found] if cluster else ()
    site = ObserverSite(pages.page, names, answers_agents=mcp)
    server = StatusServer(http, site.page, takes_posts=mcp)
    try:
        host, port = server.server_address[:2]
        print_line(f"kohort observe ready http={host!s}:{port} store={path}")
        alerting.start()
        every.run()
    except (StoreError, SameClusterError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        alerting.stop()
        server.close()


def _endpoint(text: str) -> Webhook:
    try:
        return webhook_of(resolve(text))
    except (ValueError, OSError) as error:
        raise click.UsageError(f"--webhook: {error}") from None
