"""Which clusters `kohort observe` follows, and with which settings of a client."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import click

from kohort.cli.client_settings import read_settings, with_settings
from kohort.cli.options import API_TIMEOUT_MS, key_values, require_broker
from kohort.client.addresses import parse_address
from kohort.client.config import AdminOptions, ConsumerOptions
from kohort.client.errors import ConfigurationError
from kohort.observe.observer import Target

CLIENT_ID = "kohort-observe"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PATHS = frozenset({"api", "metrics", "health", "page", "mcp"})


def targets(servers: str, clusters: tuple[str, ...], configs: tuple[str, ...]) -> list[Target]:
    """Return the clusters: those with a name, or the one of --bootstrap-server, whose brokers must answer.

    Raises: click.UsageError, NetworkError.
    """
    if not clusters:
        if configs:
            raise click.UsageError("--cluster-config is for clusters of --cluster")
        return [_target("", require_broker(servers))]
    named = key_values(clusters, "--cluster")
    if len(named) != len(clusters):
        raise click.UsageError("--cluster: two clusters have the same name")
    files = key_values(configs, "--cluster-config")
    if unknown := sorted(files.keys() - named.keys()):
        raise click.UsageError(f"--cluster-config {unknown[0]}: there is no --cluster of that name")
    return [
        _target(name, [*_addresses(name, places)], _settings(files.get(name)))
        for name, places in named.items()
    ]


def _addresses(name: str, places: str) -> Iterator[str]:
    if _NAME.fullmatch(name) is None or name in _PATHS:
        raise click.UsageError(f"--cluster {name!r}: a name has letters, digits, dots, dashes")
    for each in places.split(","):
        try:
            parse_address(each.strip())
        except ConfigurationError as error:
            raise click.UsageError(f"--cluster {name}: {error}") from None
        yield each.strip()


def _settings(file: str | None) -> Mapping[str, object] | None:
    if file is None:
        return None
    try:
        return read_settings(Path(file))
    except ValueError as error:
        raise click.UsageError(f"--cluster-config: {file}: {error}") from None


def _target(name: str, addresses: list[str], settings: Mapping[str, object] | None = None) -> Target:
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
    if settings is None:
        return Target(name, with_settings(reading), with_settings(asking))
    return Target(
        name, cast(ConsumerOptions, {**reading, **settings}), cast(AdminOptions, {**asking, **settings})
    )
