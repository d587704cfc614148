"""Options that several commands share."""

import socket
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from kohort.client.config import parse_address
from kohort.client.errors import ConfigurationError, NetworkError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

DEFAULT_SERVERS = "127.0.0.1:9092"
PROBE_SECONDS = 3.0
API_TIMEOUT_MS = 15_000


def bootstrap_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --bootstrap-server, which the command takes as `servers`."""
    return click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        "servers",
        default=DEFAULT_SERVERS,
        envvar="KOHORT_BOOTSTRAP_SERVERS",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Brokers to ask first.",
    )(command)


def json_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --json, which the command takes as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def require_broker(servers: str) -> list[str]:
    """Return the addresses, one of which is listened to.

    Raises: click.UsageError for what is no address, NetworkError at once where nothing listens.
    """
    entries = [each.strip() for each in servers.split(",") if each.strip()]
    try:
        addresses = [parse_address(each) for each in entries]
    except ConfigurationError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from None
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), PROBE_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return entries
    if not reasons:
        raise click.UsageError("--bootstrap-server is empty")
    raise NetworkError(f"no broker at {', '.join(reasons)}. Start one with: kohort serve")


def key_values(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dictionary. Raises: click.UsageError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {pair!r} is not NAME=VALUE")
        found[name] = value
    return found
