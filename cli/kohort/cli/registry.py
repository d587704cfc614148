"""`kohort registry`: a schema registry for any Kafka."""

import signal
import socket
from functools import partial

import anyio
import click

from kohort.broker.transport.addresses import Address, bind
from kohort.cli.client_settings import with_settings
from kohort.cli.options import bootstrap_option, require_broker
from kohort.cli.output import print_line
from kohort.cli.queue_options import log_to_standard_error, run_async
from kohort.client.config import ClientOptions, parse_address
from kohort.client.errors import ConfigurationError

LISTEN_BACKLOG = 128


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
@click.option("--topic", default="_schemas", show_default=True, help="Keeps the schemas.")
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def registry(*, listen: str, hosts: tuple[str, ...], topic: str, quiet: bool, servers: str) -> None:
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
    log_to_standard_error(quiet=quiet)
    with bind(Address(host, port)) as sock:
        sock.listen(LISTEN_BACKLOG)
        run_async(lambda: _serve(sock, options, (*hosts, host), topic))


async def _serve(sock: socket.socket, options: ClientOptions, hosts: tuple[str, ...], topic: str) -> None:
    from kohort.registry.server import serve_registry

    host, port = sock.getsockname()[:2]
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            address = f"http://{Address(host, port)}"
            say_ready = partial(print_line, f"kohort registry ready {address}")
            tasks.start_soon(partial(serve_registry, sock, options, hosts, topic, ready=say_ready))
            async for _ in signals:
                break
            tasks.cancel_scope.cancel()
