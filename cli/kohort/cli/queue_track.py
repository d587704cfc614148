"""`kohort queue track`: a redelivery tracker, with its metrics for Prometheus where they are wanted."""

from collections.abc import Iterable

import click
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kohort.cli.output import print_line
from kohort.cli.queue_families import QUEUE, metric_of
from kohort.cli.queue_options import (
    client_options,
    log_to_standard_error,
    queue_of,
    queue_options,
    run_async,
    run_until_told,
    serve_metrics,
)
from kohort.queues.kmq import RedeliveryTracker, ensure_topics
from kohort.queues.options import shared_options


@click.command()
@queue_options
@click.option("--http", metavar="HOST:PORT", help="Serve /metrics for Prometheus there.")
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
def track(*, servers: str, http: str | None, quiet: bool, **names: str | int) -> None:
    """Deliver records of TOPIC again that were not acknowledged in time, until SIGINT or SIGTERM.

    Several trackers share the partitions, and take over from each other; one is enough for most queues. The
    topics of markers and dead letters are made where they are missing.
    """
    queue = queue_of(**names)  # type: ignore[arg-type]  # They are queue_options'.
    options = client_options(servers)
    log_to_standard_error(quiet=quiet)

    async def main() -> RedeliveryTracker:
        await ensure_topics(queue, **shared_options(options))
        tracker = RedeliveryTracker(queue, **options)
        serve_metrics(http, _Told(tracker))
        await run_until_told(tracker)
        return tracker

    told = run_async(main).metrics()
    if not quiet:
        print_line(f"{told['redelivered']:,} delivered again, {told['dead']:,} dead letters", err=True)


class _Told(Collector):
    def __init__(self, tracker: RedeliveryTracker) -> None:
        self._tracker = tracker

    def collect(self) -> Iterable[Metric]:
        """Yield what the tracker counts."""
        values, topic = self._tracker.metrics(), [self._tracker.queue.topic]
        for name, family in QUEUE.items():
            yield metric_of(family, [(topic, values[name])])
