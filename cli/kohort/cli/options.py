"""Options that several commands share, and an admin client for the brokers that they name."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from kohort.cli.client_settings import take_file, with_settings
from kohort.cli.lazy import SERVERS, ServersOption
from kohort.cli.probe import CLIENT_ID, answers_kafka
from kohort.client import Admin
from kohort.client.addresses import parse_address
from kohort.client.config import AdminOptions
from kohort.client.errors import ConfigurationError, NetworkError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

DEFAULT_SERVERS = "127.0.0.1:9092"
API_TIMEOUT_MS = 15_000


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the decorator that adds all these options, the first one first."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def command_config_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --command-config, whose settings `with_settings` adds to those of a client."""
    return click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=take_file,
        expose_value=False,
        is_eager=True,
        envvar="KOHORT_COMMAND_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="Settings of a client under Kafka's names: TLS, SASL.",
    )(command)


def bootstrap_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --bootstrap-server, which the command takes as `servers`, and --command-config."""
    return click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        SERVERS,
        cls=ServersOption,
        default=DEFAULT_SERVERS,
        envvar="KOHORT_BOOTSTRAP_SERVERS",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Bootstrap servers of the cluster.",
    )(command_config_option(command))


def json_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --json, which the command takes as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def yes_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --yes, which the command takes as `yes`."""
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")(command)


def require_broker(servers: str) -> list[str]:
    """Return the addresses, one of which is a broker's.

    Raises: click.UsageError for what is no address, NetworkError at once where no broker listens.
    """
    entries = [each.strip() for each in servers.split(",") if each.strip()]
    try:
        addresses = [parse_address(each) for each in entries]
    except ConfigurationError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from None
    reasons: list[str] = []
    others: list[NetworkError] = []
    for host, port in addresses:
        try:
            answers_kafka(host, port)
        except NetworkError as error:  # It listens, but speaks another protocol, or no TLS.
            others.append(error)
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return entries
    if others:
        raise others[0]
    if not reasons:
        raise click.UsageError("--bootstrap-server is empty")
    raise NetworkError(f"no broker at {', '.join(reasons)}. Start one with: kohort serve")


def open_admin(servers: str) -> Admin:
    """Return an Admin for the addresses that an option gave. Raises: as `require_broker` does."""
    options: AdminOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": CLIENT_ID.decode(),
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "request_timeout_ms": API_TIMEOUT_MS,
    }
    options = with_settings(options)
    return Admin(**options)


def require_running(admin: Admin, broker_id: int) -> None:
    """Return if this broker runs: it alone takes its settings. Raises: click.ClickException."""
    running = sorted(each.node_id for each in admin.describe_cluster().nodes)
    if broker_id not in running:
        raise click.ClickException(
            f"broker {broker_id} does not exist or does not run; these run: {', '.join(map(str, running))}"
        )


def key_values(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dictionary. Raises: click.UsageError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {pair!r} is not NAME=VALUE")
        found[name] = value
    return found


_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


def unescaped(text: str) -> str:
    """Return the text with tab, line ends and a null byte where they are written as \\t, \\n, \\r and \\0."""
    return re.sub(r"\\[tnr0\\]", lambda found: _ESCAPES[found[0]], text)
