"""`kohort region coordinate`, `status`, `checkpoint` and `reset`."""

import click
import msgspec

from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import print_json, print_line
from kohort.cli.queue_options import (
    client_options,
    http_option,
    log_to_standard_error,
    run_async,
    run_until_told,
)
from kohort.queues.region import Asked, Phase, Region, RegionCoordinator, RegionStatus, ask, region_status
from kohort.queues.region.entries import Report

_name = click.argument("name")
_DEFAULTS = Region("NAME", members=1)


@click.command()
@_name
@click.option("--members", type=click.IntRange(1), required=True, help="So many names the region has.")
@click.option("--index", type=int, default=0, show_default=True, help="Members with another one are refused.")
@click.option(
    "--period-ms",
    type=click.IntRange(0),
    default=_DEFAULTS.period_ms,
    show_default=True,
    help="A checkpoint each time it is over; 0 for those that are asked for alone.",
)
@click.option(
    "--drain-timeout-ms",
    type=click.IntRange(1),
    default=_DEFAULTS.drain_timeout_ms,
    show_default=True,
    help="A checkpoint that takes longer is a failure.",
)
@click.option(
    "--reset-timeout-ms",
    type=click.IntRange(1),
    default=_DEFAULTS.reset_timeout_ms,
    show_default=True,
    help="A reset that takes longer is a failure.",
)
@click.option(
    "--resets-max",
    type=click.IntRange(0),
    default=_DEFAULTS.consecutive_resets_max,
    show_default=True,
    help="After more failures in a row the region waits for `kohort region reset`.",
)
@http_option
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@bootstrap_option
def coordinate(
    *,
    name: str,
    members: int,
    index: int,
    period_ms: int,
    drain_timeout_ms: int,
    reset_timeout_ms: int,
    resets_max: int,
    http: str | None,
    quiet: bool,
    servers: str,
) -> None:
    """Decide for region NAME until SIGINT or SIGTERM; another coordinator takes over from one that ends.

    The region's topics are made where they are missing.
    """
    region = Region(name, members, index, period_ms, drain_timeout_ms, reset_timeout_ms, resets_max)
    options = client_options(servers)
    log_to_standard_error(quiet=quiet)

    from kohort.cli.region_served import ServedCoordinator
    from kohort.cli.worker_server import served

    async def main() -> None:
        coordinator = RegionCoordinator(region, **options)
        async with served(http, ServedCoordinator(coordinator)):
            await run_until_told(coordinator)

    run_async(main)


@click.command()
@_name
@bootstrap_option
@json_option
def status(*, name: str, servers: str, as_json: bool) -> None:
    """Print the phase of region NAME, how each member stands, and the last checkpoint."""
    options = client_options(servers)

    async def main() -> RegionStatus:
        return await region_status(Region(name, members=1), **options)

    found = run_async(main)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    if not found.coordinators:
        print_line(f"no coordinator runs: start one with kohort region coordinate {name}")
    state = found.state
    if state is None:
        raise click.ClickException(f"no coordinator has decided for region {name} yet")
    print_line(f"{state.phase} in attempt {state.attempt}: {state.reason or 'members are missing'}")
    for member in sorted(state.members):
        report = found.members.get(member)
        print_line(f"member {member}: {member_line(report)}" if report else f"member {member}: no report")
    print_line(f"checkpoint {state.completed}, {sum(state.offsets.values()):,} records before its offsets")
    print_line(f"{state.consecutive_resets} failure(s) in a row")
    for reason in state.refused.values():
        print_line(f"refused: {reason}")
    if state.phase is Phase.FAILED:
        print_line(f"go back to the last checkpoint with: kohort region reset {name}")


def member_line(report: Report) -> str:
    """Return how a member stands, in words."""
    wanted = f"; asks for a reset: {report.wanted.reason}" if report.wanted else ""
    return f"{report.state}, attempt {report.attempt}, generation {report.generation_id}{wanted}"


@click.command()
@_name
@bootstrap_option
@json_option
def checkpoint(*, name: str, servers: str, as_json: bool) -> None:
    """Ask region NAME for a checkpoint; one that resets makes it afterwards."""
    _ask(name, Asked.CHECKPOINT, servers, as_json=as_json)


@click.command()
@_name
@bootstrap_option
@json_option
def reset(*, name: str, servers: str, as_json: bool) -> None:
    """Have region NAME go back to its last checkpoint; that clears its failures, too."""
    _ask(name, Asked.RESET, servers, as_json=as_json)


def _ask(name: str, asked: Asked, servers: str, *, as_json: bool) -> None:
    options = client_options(servers)

    async def main() -> None:
        await ask(Region(name, members=1), asked, **options)

    run_async(main)
    if as_json:
        print_json({"region": name, "asked": str(asked)})
    else:
        print_line(f"asked region {name} for a {asked}")
