"""--command-config: a file with Kafka's names, which says how a command's clients speak, and who they are.

security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=...ScramLoginModule required username="alice" password="secret";
ssl.truststore.location=/etc/kohort/ca.pem
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

import click

from kohort.client.config import SECRETS, connection_config, parse_setting
from kohort.client.errors import ConfigurationError
from kohort.protocol.config_providers import KNOWN, PROVIDERS, providers, resolved
from kohort.protocol.java_properties import read_properties

Options = TypeVar("Options", bound=Mapping[str, object])
SETTINGS = "kohort.client settings"
_SET_BY_THE_COMMAND = ("bootstrap_servers", "client_id")


def client_settings(context: click.Context | None = None) -> Mapping[str, str | int]:
    """Return what the file of a command says, of the one under way where none is given."""
    context = context or click.get_current_context(silent=True)
    found: Mapping[str, str | int] = {} if context is None else context.meta.get(SETTINGS, {})
    return found


def with_settings(options: Options, context: click.Context | None = None) -> Options:
    """Return a client's options with what the file says besides."""
    return cast(Options, {**options, **client_settings(context)})


def is_encrypted() -> bool:
    """Return whether brokers are to be spoken to by TLS."""
    return str(client_settings().get("security_protocol", "")).endswith("SSL")


def take_file(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Keep what a file says for the command. Raises: click.BadParameter."""
    if path is not None:
        try:
            context.meta[SETTINGS] = read_settings(path)
        except ValueError as error:
            raise click.BadParameter(f"{path}: {error}") from None


def read_settings(path: Path) -> Mapping[str, str | int]:
    """Return a client's settings of a file of Java's properties. Raises: ValueError."""
    try:
        properties = read_properties(path)
    except OSError as error:
        raise ValueError(error.strerror) from None
    known, _ = providers({each.name: each.value for each in properties})
    found: dict[str, str | int] = {}
    for name, text, line in properties:
        if name.startswith(PROVIDERS):
            continue
        plain = name.replace(".", "_")
        is_left = plain in SECRETS and known.keys() == KNOWN.keys()  # The client does so, and once is enough.
        value = text if is_left else resolved(text, known)
        if plain in _SET_BY_THE_COMMAND:
            continue
        try:
            found[plain] = parse_setting(plain, value.strip())
        except ConfigurationError:
            raise ValueError(f"line {line}: unknown setting {name!r}") from None
    connection_config({"bootstrap_servers": "127.0.0.1:9092", **found})  # Checks the values.
    return found
