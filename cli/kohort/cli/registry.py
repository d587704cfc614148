"""`kohort registry`: a schema registry for any Kafka."""

import signal
import socket
from functools import partial

import anyio
import click

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.http.security import HttpSecurity
from kohort.broker.transport.addresses import Address, bind
from kohort.cli.client_settings import with_settings
from kohort.cli.options import bootstrap_option, require_broker
from kohort.cli.output import print_line
from kohort.cli.queue_options import log_to_standard_error, run_async
from kohort.client.addresses import parse_address
from kohort.client.config import ClientOptions
from kohort.client.errors import ConfigurationError

LISTEN_BACKLOG = 128
WORDS = {
    "kohort.http.credentials.file=": "--credentials ",
    "ssl.keystore.location=": "--certificate ",
    "give ssl.key.password": "give one without a password",
}
"""What the broker's messages about these files say, and what they say for this command."""


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8081",
    show_default=True,
    help="Where clients ask it; port 0 picks a free one.",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A name by which clients call it, beside localhost and IP addresses; several are several options.",
)
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Serve by TLS: a PEM file with the private key and the certificates.",
)
@click.option(
    "--credentials",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Ask for one of the secrets in this file, NAME:SECRET a line, by Basic or as Bearer.",
)
@click.option("--topic", default="_schemas", show_default=True, help="Keeps the schemas.")
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def registry(
    *,
    listen: str,
    hosts: tuple[str, ...],
    certificate: str | None,
    credentials: str | None,
    topic: str,
    quiet: bool,
    servers: str,
) -> None:
    """Serve a schema registry until SIGINT or SIGTERM.

    It speaks the REST API of Confluent's Schema Registry, and keeps schemas in a topic of the Kafka at
    --bootstrap-server. Several may serve one topic: one of them writes.

    \b
    kohort registry --listen 127.0.0.1:8081
    """
    try:
        host, port = parse_address(listen)
    except ConfigurationError as error:
        raise click.UsageError(f"--listen: {error}") from None
    wanted: ClientOptions = {"bootstrap_servers": require_broker(servers), "client_id": "kohort-registry"}
    options = with_settings(wanted)
    security = _security(certificate, credentials)
    log_to_standard_error(quiet=quiet)
    with bind(Address(host, port)) as sock:
        sock.listen(LISTEN_BACKLOG)
        run_async(lambda: _serve(sock, options, (*hosts, host), topic, security))


def _security(certificate: str | None, credentials: str | None) -> HttpSecurity | None:
    """Return how the port is closed to strangers; None where it is open."""
    if certificate is None and credentials is None:
        return None
    config = BrokerConfig(
        kohort_http_security_protocol="PLAINTEXT" if certificate is None else "SSL",
        ssl_keystore_location=certificate,
        kohort_http_credentials_file=credentials,
    )
    try:
        return HttpSecurity(config)
    except ConfigError as error:
        raise click.UsageError(_of_options(str(error))) from None


def _of_options(problem: str) -> str:
    """Return a message with the options' names in place of the broker's settings."""
    for words, own in WORDS.items():
        problem = problem.replace(words, own)
    return problem


async def _serve(
    sock: socket.socket,
    options: ClientOptions,
    hosts: tuple[str, ...],
    topic: str,
    security: HttpSecurity | None,
) -> None:
    from kohort.registry.server import serve_registry

    host, port = sock.getsockname()[:2]
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            scheme = "http" if security is None or security.context is None else "https"
            address = f"{scheme}://{Address(host, port)}"
            say_ready = partial(print_line, f"kohort registry ready {address}")
            serve = partial(serve_registry, sock, options, hosts, topic, security=security, ready=say_ready)
            tasks.start_soon(serve)
            if security is not None:
                tasks.start_soon(security.reload_regularly)
            async for _ in signals:
                break
            tasks.cancel_scope.cancel()
