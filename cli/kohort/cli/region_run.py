"""`kohort region run`: a member of a region, whose operator is a Python class."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from kohort.cli.client_settings import ReaderCommand
from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import bootstrap_option
from kohort.cli.queue_families import (
    REGION,
    REGION_CHECKPOINT_AGE,
    REGION_MEMBER_STATE,
    REGION_PHASE,
    metric_of,
)
from kohort.cli.queue_options import (
    http_option,
    log_to_standard_error,
    member_options,
    named_object,
    property_option,
    run_async,
    run_until_signal,
    serving,
)
from kohort.client.config import INSTANCE_ID_VARIABLE
from kohort.client.errors import ConfigurationError
from kohort.queues.region import Isolation, MemberState, Phase, Region, RegionMember, StartPosition

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MS_PER_SECOND = 1_000
_DEFAULTS = Region("NAME", members=1)


@click.command(cls=ReaderCommand)
@click.argument("name")
@click.argument("member", envvar=INSTANCE_ID_VARIABLE)
@click.option(
    "--call",
    metavar="MODULE:CLASS",
    required=True,
    help="Makes the operator: it has process, save and restore, each plain or async.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    help="What it reads; several are several options.",
    shell_complete=complete_topics,
)
@click.option("--pattern", metavar="REGEX", help="Read the topics whose whole name matches instead.")
@click.option(
    "--group",
    default="",
    help="The consumer group that the members are.  [default: NAME-members]",
    shell_complete=complete_groups,
)
@click.option(
    "--isolation",
    type=click.Choice([each.value for each in Isolation]),
    default=Isolation.THREAD.value,
    show_default=True,
    help="Where the operator runs; one in a process can be ended when it hangs.",
)
@click.option("--index", type=int, default=0, show_default=True, help="Has to be the coordinator's.")
@click.option(
    "--start-position",
    type=click.Choice([each.value for each in StartPosition]),
    default=StartPosition.BEGINNING.value,
    show_default=True,
    help="Where partitions begin that the region does not know; default: where the group has committed.",
)
@click.option("--start-time-ms", type=click.IntRange(0), help="Since 1970, for --start-position time.")
@click.option(
    "--reset-timeout-ms",
    type=click.IntRange(1),
    default=_DEFAULTS.reset_timeout_ms,
    show_default=True,
    help="Drains and restores take half of it at most, half of max.poll.interval.ms, and 15 s.",
)
@property_option
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
@http_option
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def run(
    *,
    name: str,
    member: str,
    call: str,
    topics: tuple[str, ...],
    pattern: str | None,
    group: str,
    isolation: str,
    index: int,
    start_position: str,
    start_time_ms: int | None,
    reset_timeout_ms: int,
    checkpoint_records: int,
    states: str,
    http: str | None,
    quiet: bool,
    servers: str,
) -> None:
    """Be the member MEMBER of region NAME until SIGINT or SIGTERM.

    Give each process of the region a name of its own, and the same one each time it starts: it goes on from
    the state that was saved under that name, which is its group.instance.id, too. In Kubernetes leave MEMBER
    out, and set KOHORT_GROUP_INSTANCE_ID to the pod's name.

    \b
    kohort region run totals a --call shop.totals:Total --topic payments
    """
    operator = named_object("--call", call)()
    options = member_options(servers)
    if group:
        options["group_id"] = group
    log_to_standard_error(quiet=quiet)
    try:
        process = RegionMember(
            Region(name, members=1, index=index, reset_timeout_ms=reset_timeout_ms, states_url=states),
            member,
            operator,
            topics=topics,
            pattern=pattern,
            start_position=StartPosition(start_position),
            start_time_ms=start_time_ms,
            isolation=Isolation(isolation),
            checkpoint_records=checkpoint_records,
            **options,
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None

    async def main() -> None:
        async with serving(http, _Served(process)):
            await run_until_signal(process)

    run_async(main)


class _Served:
    kind = "region"

    def __init__(self, member: RegionMember) -> None:
        self._member = member

    @property
    def is_ready(self) -> bool:
        return self._member.is_ready

    def status(self) -> Mapping[str, object]:
        return {"role": "member", **self._member.status()}

    def metrics(self) -> "Iterable[Metric]":
        member = self._member
        values, labels = member.metrics(), (member.region.name, member.name)
        for key, family in REGION.items():
            divisor = MS_PER_SECOND if "_seconds" in family.name else 1
            yield metric_of(family, [(labels, values[key] / divisor)])
        states = (((*labels, each), float(each is member.state)) for each in MemberState)
        yield metric_of(REGION_MEMBER_STATE, states)
        yield metric_of(REGION_PHASE, (((*labels, each), float(each == member.phase)) for each in Phase))
        age_ms = member.checkpoint_age_ms
        ages = [] if age_ms is None else [(labels, age_ms / MS_PER_SECOND)]
        yield metric_of(REGION_CHECKPOINT_AGE, ages)
