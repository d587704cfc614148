"""`kohort region run`: a member of a region, whose operator is a Python class."""

from collections.abc import Iterable

import click
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kohort.cli.completion import complete_topics
from kohort.cli.options import bootstrap_option
from kohort.cli.queue_options import (
    client_options,
    log_to_standard_error,
    named_object,
    run_async,
    run_until_told,
    serve_metrics,
)
from kohort.client.errors import ConfigurationError
from kohort.queues.region import Region, RegionMember, Start

_GAUGES = {  # The name here, what divides the member's figure, and the words.
    "drain_ms_last": ("drain_seconds_last", 1_000, "How long the last drain took."),
    "drain_ms_most": ("drain_seconds_most", 1_000, "How long the longest drain took."),
    "partitions_assigned": ("partitions_assigned", 1, "Partitions that this member has."),
    "topics_consumed": ("topics_consumed", 1, "Topics that this member has partitions of."),
    "queued": ("queued", 1, "Records that were read and not processed."),
}


@click.command()
@click.argument("name")
@click.argument("member")
@click.option(
    "--call",
    metavar="MODULE:CLASS",
    required=True,
    help="Makes the operator: it has process (async), save and restore.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    help="What it reads; several are several options.",
    shell_complete=complete_topics,
)
@click.option("--index", type=int, default=0, show_default=True, help="Has to be the coordinator's.")
@click.option(
    "--start",
    type=click.Choice([each.value for each in Start]),
    default=Start.BEGINNING.value,
    show_default=True,
    help="Where partitions begin that the region does not know.",
)
@click.option("--start-timestamp-ms", type=click.IntRange(0), help="Since 1970, for --start timestamp.")
@click.option(
    "--checkpoint-records",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Ask for a checkpoint whenever so many are processed; 0 for none.",
)
@click.option(
    "--states", metavar="URL", default="", help="Keep states in files there (fsspec), and not in a topic."
)
@click.option("--http", metavar="HOST:PORT", help="Serve /metrics for Prometheus there.")
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def run(
    *,
    name: str,
    member: str,
    call: str,
    topics: tuple[str, ...],
    index: int,
    start: str,
    start_timestamp_ms: int | None,
    checkpoint_records: int,
    states: str,
    http: str | None,
    quiet: bool,
    servers: str,
) -> None:
    """Be the member MEMBER of region NAME until SIGINT or SIGTERM.

    Give each process of the region a name of its own, and the same one each time it starts: it goes on from
    the state that was saved under that name.

    \b
    kohort region run totals a --call shop.totals:Total --topic payments
    """
    operator = named_object("--call", call)()
    options = client_options(servers)
    log_to_standard_error(quiet=quiet)
    try:
        process = RegionMember(
            Region(name, members=1, index=index, states_url=states),
            member,
            operator,
            topics=topics,
            start=Start(start),
            start_timestamp_ms=start_timestamp_ms,
            checkpoint_records=checkpoint_records,
            **options,
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    serve_metrics(http, _Told(process))

    async def main() -> None:
        await run_until_told(process)

    run_async(main)


class _Told(Collector):
    def __init__(self, member: RegionMember) -> None:
        self._member = member

    def collect(self) -> Iterable[Metric]:
        """Yield how the member stands."""
        values = self._member.metrics()
        labels = {"region": self._member.region.name, "member": self._member.name}
        for key, (name, divisor, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"kohort_region_{name}", text, labels=list(labels))
            gauge.add_metric(list(labels.values()), values[key] / divisor)
            yield gauge
