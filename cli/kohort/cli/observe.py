"""`kohort observe`: follows a Kafka cluster from beside it, and says why its groups rebalance."""

import os
import signal
from pathlib import Path
from types import FrameType

import click

from kohort.cli.client_settings import with_settings
from kohort.cli.options import API_TIMEOUT_MS, bootstrap_option, require_broker
from kohort.cli.output import print_line
from kohort.cli.queue_options import log_to_standard_error
from kohort.cli.status_server import Page, StatusServer
from kohort.client.config import AdminOptions, ConsumerOptions
from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits
from kohort.observe.pages import Pages
from kohort.observe.store import StoreError

CLIENT_ID = "kohort-observe"
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
    help="Serve /api, /metrics and /health there.",
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
    help="Forget the oldest events while all take more.",
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
    quiet: bool,
    servers: str,
) -> None:
    """Follow a cluster's groups until SIGINT or SIGTERM, and say why they rebalanced.

    Any Kafka since 2.4. It reads __consumer_offsets without a group, commits nothing and changes nothing.
    Ended in whatever way, it goes on where it was.

    \b
    kohort observe --bootstrap-server prod:9092
    kohort groups explain billing --http 127.0.0.1:9645
    """
    addresses = require_broker(servers)
    asking: AdminOptions = {
        "bootstrap_servers": addresses,
        "client_id": CLIENT_ID,
        "default_api_timeout_ms": API_TIMEOUT_MS,
    }
    reading: ConsumerOptions = {
        "bootstrap_servers": addresses,
        "client_id": CLIENT_ID,
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "allow_auto_create_topics": False,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "exclude_internal_topics": False,
    }
    log_to_standard_error(quiet=quiet)
    limits = Limits(interval, calls_per_second, retention_days, retention_mib * _MEBIBYTE)
    path = store or default_store()
    observer = Observer(Target("", with_settings(reading), with_settings(asking)), path, limits)

    def stop(signum: int, frame: FrameType | None) -> None:
        observer.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    pages = Pages(observer)
    server = StatusServer(http, lambda target: Page(*pages.page(target)))
    try:
        host, port = server.server_address[:2]
        print_line(f"kohort observe ready http={host!s}:{port} store={path}")
        observer.run()
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    finally:
        server.close()
