"""`kohort queue run`: a worker of a queue, which runs a command or a Python function for each record."""

import inspect
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import click

from kohort.cli.client_settings import ReaderCommand
from kohort.cli.output import print_line
from kohort.cli.queue_families import QUEUE_WORKER, QUEUE_WORKER_RECORDS, metric_of
from kohort.cli.queue_options import (
    http_option,
    log_to_standard_error,
    member_options,
    named_object,
    property_option,
    queue_of,
    queue_options,
    run_async,
    run_until_signal,
    serving,
)
from kohort.client import ConsumerRecord
from kohort.client.config import INSTANCE_ID_VARIABLE
from kohort.queues.kmq import QueueWorker, Reject, Release, ensure_topics
from kohort.queues.kmq.copies import redelivery_count
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.worker import Handler
from kohort.queues.options import shared_options

if TYPE_CHECKING:
    from prometheus_client.core import Metric

REJECTED = getattr(os, "EX_DATAERR", 65)
RELEASED = getattr(os, "EX_TEMPFAIL", 75)
_OUTCOMES = ("done", "failed", "released", "rejected")


@click.command(cls=ReaderCommand, context_settings={"ignore_unknown_options": True})
@queue_options
@click.option("--call", metavar="MODULE:FUNCTION", help="A function, plain or async, that takes the record.")
@click.option("--workers", type=click.IntRange(1), default=8, show_default=True, help="So many at once.")
@click.option(
    "--batch-max", type=click.IntRange(1), default=100, show_default=True, help="So many are taken at once."
)
@property_option
@http_option
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    *,
    servers: str,
    call: str | None,
    workers: int,
    batch_max: int,
    http: str | None,
    quiet: bool,
    command: tuple[str, ...],
    **names: str | int,
) -> None:
    """Take records of TOPIC, and run COMMAND for each, several at once, until SIGINT or SIGTERM.

    The command gets the record's value as standard input, and KOHORT_TOPIC, KOHORT_PARTITION, KOHORT_OFFSET,
    KOHORT_KEY and KOHORT_REDELIVERIES in its environment. Its exit status decides: 0, the record is done; 65,
    it is a dead letter; 75, it comes again at once; any other, it comes again when its time is over.

    \b
    kohort queue run orders -- ./handle-order --strictly
    kohort queue run orders --call shop.orders:handle --workers 32
    """
    if (call is None) == (not command):
        raise click.UsageError("give a command behind --, or --call MODULE:FUNCTION")
    queue = queue_of(**names)  # type: ignore[arg-type]  # They are queue_options'.
    handler = _function(call) if call is not None else partial(_run_command, queue, command)
    options = member_options(servers)
    log_to_standard_error(quiet=quiet)

    async def main() -> QueueWorker:
        worker = QueueWorker(queue, handler, workers=workers, batch_max=batch_max, **options)
        async with serving(http, _Served(worker)):
            await ensure_topics(queue, **shared_options(options))
            await run_until_signal(worker)
        return worker

    done = run_async(main)
    if not quiet:
        counts = {name: getattr(done, name) for name in _OUTCOMES}
        print_line(", ".join(f"{count:,} {name}" for name, count in counts.items()), err=True)


class _Served:
    kind = "queue"

    def __init__(self, worker: QueueWorker) -> None:
        self._worker = worker

    @property
    def is_ready(self) -> bool:
        return self._worker.is_ready

    def status(self) -> Mapping[str, object]:
        return {"role": "worker", **self._worker.status()}

    def metrics(self) -> "Iterable[Metric]":
        told, topic = self._worker.status(), self._worker.queue.topic
        for name, family in QUEUE_WORKER.items():
            yield metric_of(family, [([topic], float(str(told[name])))])
        outcomes = (([topic, each], float(str(told[each]))) for each in _OUTCOMES)
        yield metric_of(QUEUE_WORKER_RECORDS, outcomes)


async def _run_command(queue: Queue, command: tuple[str, ...], record: ConsumerRecord) -> None:
    place = {
        "KOHORT_TOPIC": record.topic,
        "KOHORT_PARTITION": str(record.partition),
        "KOHORT_OFFSET": str(record.offset),
        "KOHORT_KEY": (record.key or b"").decode(errors="replace").replace("\0", ""),
        "KOHORT_REDELIVERIES": str(redelivery_count(record, queue)),
    }
    environment = {name: value for name, value in os.environ.items() if name != INSTANCE_ID_VARIABLE}
    done = await anyio.run_process(
        command,
        input=record.value or b"",
        stdout=None,
        stderr=None,
        check=False,
        env={**environment, **place},
    )
    if done.returncode == REJECTED:
        raise Reject(f"{command[0]} ended with status {REJECTED}")
    if done.returncode == RELEASED:
        raise Release
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command)


def _function(name: str) -> Handler:
    """Return the function of MODULE:FUNCTION, as one that is awaited. Raises: click.UsageError."""
    function = named_object("--call", name)
    if inspect.iscoroutinefunction(function):
        awaitable: Callable[[ConsumerRecord], Awaitable[object]] = function
        return awaitable
    return partial(anyio.to_thread.run_sync, function)
