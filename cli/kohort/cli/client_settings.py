"""--command-config: a file with Kafka's names, which says how a command's clients speak, and who they are.

A command that reads takes all settings of a consumer there, and by --property NAME=VALUE.

security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=...ScramLoginModule required username="alice" password="secret";
ssl.truststore.location=/etc/kohort/ca.pem
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

import click

from kohort.client.config import SECRETS, ClientConfig, connection_config, parse_setting
from kohort.client.errors import ConfigurationError
from kohort.protocol.config_providers import DEFAULT_PROVIDERS, PROVIDERS, providers, resolve
from kohort.protocol.java_properties import read_properties

Options = TypeVar("Options", bound=Mapping[str, object])
SETTINGS = "kohort.client settings"
OF_READER = "kohort.client settings of a consumer"
_SET_BY_THE_COMMAND = ("bootstrap_servers", "client_id")


def client_settings(context: click.Context | None = None) -> Mapping[str, str | int]:
    """Return what the file of a command says, of the one under way where none is given."""
    context = context or click.get_current_context(silent=True)
    found: Mapping[str, str | int] = {} if context is None else context.meta.get(SETTINGS, {})
    return found


def with_settings(options: Options, context: click.Context | None = None) -> Options:
    """Return a client's options with what the file says besides."""
    return cast(Options, {**options, **client_settings(context)})


class ReaderCommand(click.Command):
    """A command that reads records: its --command-config may have all settings of a consumer."""


def reader_settings() -> Mapping[str, object]:
    """Return what --property and the file of the command under way say of its consumer, the former first."""
    context = click.get_current_context(silent=True)
    found: Mapping[str, object] = {} if context is None else context.meta.get(OF_READER, {})
    return found


def take_properties(context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep what --property says for the command, before what its file does. Raises: click.BadParameter."""
    if not given:
        return
    from kohort.client.setting_texts import reader_setting

    found: dict[str, object] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is not NAME=VALUE")
        try:
            plain, value = reader_setting(name, text)
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from None
        if plain == "bootstrap_servers":
            raise click.BadParameter("give brokers by --bootstrap-server")
        found[plain] = value
    common = {name: value for name, value in found.items() if name in ClientConfig.__struct_fields__}
    context.meta[SETTINGS] = {**context.meta.get(SETTINGS, {}), **common}
    context.meta[OF_READER] = {**context.meta.get(OF_READER, {}), **found}


def is_encrypted(context: click.Context | None = None) -> bool:
    """Return whether brokers are to be spoken to by TLS, as the settings of that command say."""
    return str(client_settings(context).get("security_protocol", "")).endswith("SSL")


def take_file(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Keep what a file says for the command. Raises: click.BadParameter."""
    if path is not None:
        of_reader = isinstance(context.command, ReaderCommand)
        try:
            found = read_settings(path, of_reader=of_reader)
        except ValueError as error:
            raise click.BadParameter(f"{path}: {error}") from None
        common = {name: value for name, value in found.items() if name in ClientConfig.__struct_fields__}
        context.meta[SETTINGS] = {**common, **context.meta.get(SETTINGS, {})}
        if of_reader:
            context.meta[OF_READER] = {**found, **context.meta.get(OF_READER, {})}


def read_settings(path: Path, *, of_reader: bool = False) -> Mapping[str, object]:
    """Return a client's settings of a file of Java's properties, or those `of_reader`. Raises: ValueError."""
    try:
        properties = read_properties(path)
    except OSError as error:
        raise ValueError(error.strerror) from None
    known, _ = providers({each.name: each.value for each in properties})
    found: dict[str, object] = {}
    for name, text, line in properties:
        if name.startswith(PROVIDERS):
            continue
        plain = name.replace(".", "_")
        # The client does so, and once is enough.
        is_left = plain in SECRETS and known.keys() == DEFAULT_PROVIDERS.keys()
        value = text if is_left else resolve(text, known)
        if plain in _SET_BY_THE_COMMAND and not (of_reader and plain == "client_id"):
            continue
        try:
            if of_reader and plain not in ClientConfig.__struct_fields__:
                from kohort.client.setting_texts import reader_setting

                found[plain] = reader_setting(name, value)[1]
            else:
                found[plain] = parse_setting(plain, value.strip())
        except ConfigurationError as error:
            words = str(error) if of_reader else f"unknown setting {name!r}"
            raise ValueError(f"line {line}: {words}") from None
    common = {name: value for name, value in found.items() if name in ClientConfig.__struct_fields__}
    connection_config({"bootstrap_servers": "127.0.0.1:9092", **common})  # Checks the values.
    return found
