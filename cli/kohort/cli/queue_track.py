"""`kohort queue track`: a redelivery tracker."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from kohort.cli.client_settings import ReaderCommand
from kohort.cli.output import print_line
from kohort.cli.queue_families import QUEUE, metric_of
from kohort.cli.queue_options import (
    http_option,
    log_to_standard_error,
    member_options,
    property_option,
    queue_of,
    queue_options,
    run_async,
    run_until_signal,
    serving,
)
from kohort.queues.kmq import RedeliveryTracker, ensure_topics
from kohort.queues.options import shared_options

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@click.command(cls=ReaderCommand)
@queue_options
@property_option
@http_option
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
def track(*, servers: str, http: str | None, quiet: bool, **names: str | int) -> None:
    """Deliver records of TOPIC again that were not acknowledged in time, until SIGINT or SIGTERM.

    Several trackers share the partitions, and take over from each other; one is enough for most queues. The
    topics of markers and dead letters are made where they are missing.
    """
    queue = queue_of(**names)  # type: ignore[arg-type]  # They are queue_options'.
    options = member_options(servers)
    log_to_standard_error(quiet=quiet)

    async def main() -> RedeliveryTracker:
        tracker = RedeliveryTracker(queue, **options)
        async with serving(http, _Served(tracker)):
            await ensure_topics(queue, **shared_options(options))
            await run_until_signal(tracker)
        return tracker

    told = run_async(main).metrics()
    if not quiet:
        print_line(f"{told['redelivered']:,} delivered again, {told['dead']:,} dead letters", err=True)


class _Served:
    kind = "queue"

    def __init__(self, tracker: RedeliveryTracker) -> None:
        self._tracker = tracker

    @property
    def is_ready(self) -> bool:
        return self._tracker.is_ready

    def status(self) -> Mapping[str, object]:
        return {"role": "tracker", **self._tracker.status()}

    def metrics(self) -> "Iterable[Metric]":
        values, topic = self._tracker.metrics(), [self._tracker.queue.topic]
        for name, family in QUEUE.items():
            divisor = 1_000 if "_seconds" in family.name else 1
            yield metric_of(family, [(topic, values[name] / divisor)])
