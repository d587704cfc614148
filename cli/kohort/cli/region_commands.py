"""`kohort region coordinate`, `status`, `checkpoint` and `reset`."""

from collections.abc import Iterator, Mapping

import click
import msgspec

from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import print_json, print_line
from kohort.cli.queue_options import (
    client_options,
    http_option,
    log_to_standard_error,
    run_async,
    run_until_signal,
    serving,
)
from kohort.queues.region import Asked, Phase, Region, RegionCoordinator, RegionStatus, ask, region_status
from kohort.queues.region.coordinating import contributions, members_reports
from kohort.queues.region.entries import RegionState, Report

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

    async def main() -> None:
        coordinator = RegionCoordinator(region, **options)
        async with serving(http, ServedCoordinator(coordinator)):
            await run_until_signal(coordinator)

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
    for line in status_lines(name, found):
        print_line(line)
    if found.state is None:
        raise click.ClickException(f"no coordinator has decided for region {name} yet")


def status_lines(name: str, found: RegionStatus) -> list[str]:
    """Return how a region stands, and by which commands it goes on where it does not by itself."""
    state = found.state
    lines = []
    if not found.coordinators:
        size = state.size if state and state.size else "N"
        lines.append(f"no coordinator runs: kohort region coordinate {name} --members {size}")
    if state is None:
        return lines
    lines.append(f"{state.phase} in attempt {state.attempt}: {state.reason or 'members are missing'}")
    for member in sorted(state.members):
        report = found.members.get(member)
        lines.append(f"member {member}: {member_line(report)}" if report else f"member {member}: no report")
    lines.append(f"checkpoint {state.completed}, {sum(state.offsets.values()):,} records before its offsets")
    lines.append(f"{state.consecutive_resets} failure(s) in a row")
    lines += [f"refused: {reason}" for reason in state.refused.values()]
    return [*lines, *_ways_on(name, state, found)]


def _ways_on(name: str, state: RegionState, found: RegionStatus) -> Iterator[str]:
    """Yield what the region waits for, and what to do for it."""
    for member in found.absent:
        yield f"member {member} is not in its group: kohort region run {name} {member} ..."
    missing = state.size - len(state.members)
    if missing > 0:
        yield f"{missing} more member(s) have to register: kohort region run {name} MEMBER ..."
    restart = f"kohort region reset {name} --to-beginning"
    if missing < 0 < state.size:
        yield f"take {-missing} member(s) out, all begin anew: {restart} --without MEMBER"
    elif state.phase is Phase.FAILED:
        yield f"go back to the last checkpoint: kohort region reset {name}"
        yield f"if its states are lost, begin anew: {restart}"
    elif waiting := waits_for(state, found.members):
        yield f"waits for {', '.join(waiting)}"


def waits_for(state: RegionState, reports: Mapping[str, Report]) -> list[str]:
    """Return the members that have not reset yet, or not contributed to the checkpoint under way."""
    there = [each for each in members_reports(state, reports) if each.attempt == state.attempt]
    done = {each.name for each in there}
    if state.phase is Phase.CHECKPOINTING:
        done = set(contributions(state, there))
    elif state.phase is not Phase.RESETTING:
        return []
    return sorted(state.members.keys() - done)


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
@click.option(
    "--to-beginning",
    is_flag=True,
    help="Forget all checkpoints: members begin with their first states, at the region's first offsets.",
)
@click.option(
    "--without",
    metavar="MEMBER",
    default="",
    help="With --to-beginning: take this member out, so that another one may come for it.",
)
@bootstrap_option
@json_option
def reset(*, name: str, to_beginning: bool, without: str, servers: str, as_json: bool) -> None:
    """Have region NAME go back to its last checkpoint; that clears its failures, too."""
    if without and not to_beginning:
        raise click.UsageError("--without needs --to-beginning: the checkpoints have that member's state")
    _ask(name, Asked.RESTART if to_beginning else Asked.RESET, servers, as_json=as_json, without=without)


def _ask(name: str, asked: Asked, servers: str, *, as_json: bool, without: str = "") -> None:
    options = client_options(servers)

    async def main() -> None:
        await ask(Region(name, members=1), asked, without, **options)

    run_async(main)
    if as_json:
        print_json({"region": name, "asked": str(asked)})
    else:
        print_line(f"asked region {name} for a {asked}")
