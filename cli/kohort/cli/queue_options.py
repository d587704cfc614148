"""What the commands of `kohort queue` share: the queue's names and times, and how they end."""

import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

import anyio
import click

from kohort.cli.client_settings import reader_settings, take_properties, with_settings
from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import API_TIMEOUT_MS, bootstrap_option, require_broker
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError
from kohort.queues.kmq import Queue

if TYPE_CHECKING:
    from kohort.cli.worker_server import Worker

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_DEFAULTS = Queue("TOPIC")
_OPTIONS = (
    click.argument("topic", shell_complete=complete_topics),
    click.option(
        "--markers-topic",
        default="",
        help=f"[default: {_DEFAULTS.markers_topic}]",
        shell_complete=complete_topics,
    ),
    click.option(
        "--dead-letters-topic",
        default="",
        help=f"[default: {_DEFAULTS.dead_letters_topic}]",
        shell_complete=complete_topics,
    ),
    click.option(
        "--group",
        default="",
        help=f"Reads the topic.  [default: {_DEFAULTS.group_id}]",
        shell_complete=complete_groups,
    ),
    click.option(
        "--redelivery-group",
        default="",
        help=f"Reads the markers.  [default: {_DEFAULTS.redelivery_group_id}]",
        shell_complete=complete_groups,
    ),
    click.option(
        "--message-timeout-ms",
        type=click.IntRange(1),
        default=_DEFAULTS.message_timeout_ms,
        show_default=True,
        help="A record that is not acknowledged for so long comes again.",
    ),
    click.option(
        "--max-redeliveries",
        type=click.IntRange(0),
        default=_DEFAULTS.max_redelivery_count,
        show_default=True,
        help="Then it is a dead letter.",
    ),
    bootstrap_option,
)


def http_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --http, where a worker is looked at."""
    return click.option(
        "--http",
        metavar="HOST:PORT",
        help="Serve a page for browsers, JSON under /api/v1, /health/live, /health/ready and /metrics there.",
    )(command)


def property_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add --property, for a ReaderCommand: `member_options` has what it says."""
    return click.option(
        "--property",
        "properties",
        multiple=True,
        callback=take_properties,
        expose_value=False,
        metavar="NAME=VALUE",
        help="A setting of the consumer under Kafka's name: max.poll.records, session.timeout.ms.",
    )(command)


def queue_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add the topic, the queue's names and times, and --bootstrap-server."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def queue_of(
    *,
    topic: str,
    markers_topic: str,
    dead_letters_topic: str,
    group: str,
    redelivery_group: str,
    message_timeout_ms: int,
    max_redeliveries: int,
) -> Queue:
    """Return the queue that these options name. Raises: click.UsageError."""
    try:
        return Queue(
            topic=topic,
            markers_topic=markers_topic,
            dead_letters_topic=dead_letters_topic,
            group_id=group,
            redelivery_group_id=redelivery_group,
            message_timeout_ms=message_timeout_ms,
            max_redelivery_count=max_redeliveries,
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def client_options(servers: str) -> ConsumerOptions:
    """Return the options of a command's clients. Raises: as `require_broker` does."""
    options: ConsumerOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": "kohort-cli",
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "allow_auto_create_topics": False,
    }
    return with_settings(options)


def member_options(servers: str) -> ConsumerOptions:
    """Return the same with what --property and the command's file say of its consumer. Raises: as above."""
    return cast(ConsumerOptions, {**client_options(servers), **reader_settings()})


class Stoppable(Protocol):
    """A process of a queue."""

    async def run(self) -> None:
        """Work until `stop`."""

    def stop(self) -> None:
        """Let `run` end."""


def serving(http: str | None, worker: "Worker") -> AbstractAsyncContextManager[None]:
    """Return what has a worker served at that address meanwhile; who asks for none does not pay for it."""
    if http is None:
        return nullcontext()
    from kohort.cli.worker_server import served

    return served(http, worker)


async def run_until_signal(process: Stoppable) -> None:
    """Run it until SIGINT or SIGTERM, and let it end what it has begun."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_at_signal, process)
        await process.run()
        tasks.cancel_scope.cancel()


async def _stop_at_signal(process: Stoppable) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            process.stop()


def run_async(main: Callable[[], Awaitable[Result]]) -> Result:
    """Return what `main` returns; of several errors at once the first is raised."""
    try:
        return anyio.run(main, backend="trio")
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def log_to_standard_error(*, quiet: bool) -> None:
    """Have what the library says on standard error, a line each."""
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")


def named_object(option: str, name: str) -> Any:
    """Return what MODULE:NAME stands for; the working folder is looked in, too. Raises: click.UsageError."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise click.UsageError(f"{option} {name!r} is not MODULE:NAME")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"{option} {name}: {error}") from None
