"""`kohort groups reset-offsets` and `kohort share-groups reset-offsets`.

What they print is what Kafka's own tools print; a failure is an exit status of 1, too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kohort.cli.completion import complete_groups, complete_share_groups, complete_topics
from kohort.cli.options import bootstrap_option, json_option, open_admin, together
from kohort.cli.output import print_file, print_json, print_line
from kohort.cli.reset_plan import ByGroup, Planner, Spec, from_csv, to_csv
from kohort.cli.share_group_views import describe_one
from kohort.client import Admin, BrokerError, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

Starts = Mapping[TopicPartition, OffsetAndMetadata]

SHARE = "share"
INACTIVE = frozenset({"Empty", "Dead"})
DRY_RUN = "Nothing has been changed: give --execute to set these offsets."
NAME_WIDTH = 15


class Kind(NamedTuple):
    """What is done otherwise for groups of one kind."""

    noun: str
    is_inactive: Callable[[Admin, str], bool]
    """Whether a group's offsets may be set; says so where they may not. Raises: click.ClickException."""
    starts: Callable[[Admin, str], Starts]
    """Where a group reads on now."""
    set_offsets: Callable[[Admin, str, dict[TopicPartition, int]], None]


def topic_option(metavar: str, text: str, *, required: bool = False) -> Callable[[Any], Any]:
    """Return the decorator that adds --topic."""
    return click.option(
        "--topic",
        "-t",
        "topics",
        multiple=True,
        required=required,
        metavar=metavar,
        help=text,
        shell_complete=complete_topics,
    )


def reset_options(*ways: Callable[[Any], Any], all_topics: str, current: str) -> Callable[[Any], Any]:
    """Return the decorator that adds the ways to say where to, those of one kind in their place."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    to_time = "To the first record since YYYY-MM-DDThh:mm:ss.sss (UTC)."
    return together(
        topic_option("NAME[:0,1]", "These partitions; may be repeated."),
        click.option("--all-topics", is_flag=True, help=all_topics),
        click.option("--to-earliest", is_flag=True, help="To the first record."),
        click.option("--to-latest", is_flag=True, help="To the end."),
        click.option("--to-current", is_flag=True, help=current),
        click.option("--to-offset", type=int, help="To this offset, or the nearest one that exists."),
        click.option("--to-datetime", metavar="TIME", help=to_time),
        *ways,
        click.option("--from-file", type=file, help="To the offsets of a CSV file."),
        click.option("--execute", is_flag=True, help="Set the offsets.  [default: only show them]"),
        click.option("--dry-run", is_flag=True, help="Only show the offsets."),
        click.option(
            "--export", is_flag=True, help="Print CSV for --from-file, of another cluster for example."
        ),
        json_option,
        bootstrap_option,
    )


@click.command("reset-offsets")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Reset every group.")
@reset_options(
    click.option("--shift-by", type=int, help="By this many records: forward, or back if negative."),
    click.option("--by-duration", metavar="DURATION", help="To the first record since PnDTnHnMnS ago."),
    all_topics="Every partition that the group has committed.",
    current="To the committed offset, or to the end.",
)
def reset_offsets(*, group_ids: tuple[str, ...], all_groups: bool, **given: Any) -> None:
    """Show new offsets of groups, and set them with --execute. The groups must have no members.

    \b
    kohort groups reset-offsets billing --topic orders --to-earliest
    kohort groups reset-offsets billing --all-topics --shift-by -100 --execute
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of groups, or --all-groups")

    def wanted(admin: Admin) -> Sequence[str]:
        return group_ids or [each.group_id for each in admin.list_groups() if each.type.lower() != SHARE]

    reset(CONSUMERS, wanted, **given)


@click.command("reset-offsets")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_share_groups)
@reset_options(
    all_topics="Every partition that the group has.",
    current="To the start offset, or to the end.",
)
def reset_share_offsets(*, group_id: str, **given: Any) -> None:
    """Show new start offsets of GROUP, and set them with --execute. It must have no members.

    The group reads again from there, also records that it has acknowledged.

    \b
    kohort share-groups reset-offsets workers --topic jobs --to-earliest --execute
    """
    reset(SHARES, lambda admin: (group_id,), **given)


def reset(
    kind: Kind,
    wanted_of: Callable[[Admin], Sequence[str]],
    *,
    topics: tuple[str, ...],
    all_topics: bool,
    from_file: Path | None,
    execute: bool,
    dry_run: bool,
    export: bool,
    as_json: bool,
    servers: str,
    **ways: Any,
) -> None:
    """Show where groups read on, and set it where that is said. Raises: click.UsageError, BrokerError."""
    spec = Spec(**ways)
    _check_usage(spec, from_file, topics, all_topics)
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    if export and as_json:
        raise click.UsageError("--export prints CSV: give it or --json, not both")
    with open_admin(servers) as admin:
        wanted = tuple(wanted_of(admin))
        planner = Planner(
            admin, time.time_ns() // 1_000_000, lambda text: print_line(f"Warn: {text}", err=True)
        )
        ready = tuple(each for each in wanted if kind.is_inactive(admin, each))
        plans: ByGroup
        if from_file is not None:
            said = from_csv(from_file.read_text(), wanted)
            plans = {each: planner.within_logs(said[each]) for each in ready}
        else:
            scope = None if all_topics else topics
            plans = {each: _plan(kind, admin, planner, each, spec, scope) for each in ready}
        plans = {each: plan for each, plan in plans.items() if plan}
        if execute:
            for group_id, offsets in plans.items():
                kind.set_offsets(admin, group_id, offsets)
    if export:
        print_file(to_csv(plans))
    elif as_json:
        print_json(_plans_json(plans))
    else:
        for line in _plan_table(plans):
            print_line(line)
    if plans and not execute and not dry_run:
        print_line(DRY_RUN, err=True)
    if len(ready) < len(wanted):
        raise click.exceptions.Exit(1)


def _check_usage(spec: Spec, from_file: Path | None, topics: tuple[str, ...], all_topics: bool) -> None:
    """Return if exactly one way and one scope are given. Raises: click.UsageError."""
    if spec.count + (from_file is not None) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime,"
            " --by-duration and --from-file"
        )
    if from_file is None and bool(topics) == all_topics:
        raise click.UsageError("give --topic, or --all-topics")


def _plan(  # noqa: PLR0917
    kind: Kind, admin: Admin, planner: Planner, group_id: str, spec: Spec, topics: tuple[str, ...] | None
) -> dict[TopicPartition, int]:
    needs_starts = topics is None or spec.to_current or spec.shift_by is not None
    starts = kind.starts(admin, group_id) if needs_starts else {}
    return planner.plan(spec, sorted(starts) if topics is None else planner.partitions(topics), starts)


def _plans_json(plans: ByGroup) -> list[dict[str, object]]:
    """Return the new offsets as JSON has them."""
    return [
        {"group": group_id, "topic": each.topic, "partition": each.partition, "new_offset": offset}
        for group_id, offsets in plans.items()
        for each, offset in sorted(offsets.items())
    ]


def _plan_table(plans: ByGroup) -> list[str]:
    """Return the lines about the new offsets."""
    rows = [
        (group_id, each.topic, str(each.partition), str(offset))
        for group_id, offsets in plans.items()
        for each, offset in sorted(offsets.items())
    ]
    groups = max([NAME_WIDTH, *(len(row[0]) for row in rows)])
    names = max([NAME_WIDTH, *(len(row[1]) for row in rows)])
    titles = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    return ["", *(f"{row[0]:<{groups}} {row[1]:<{names}} {row[2]:<10} {row[3]}" for row in (titles, *rows))]


def _is_inactive(admin: Admin, group_id: str) -> bool:
    try:
        group = admin.describe_groups(group_id)[group_id]
    except BrokerError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return True  # Setting its offsets makes it.
    if group.type == SHARE:
        print_line(
            f"Error: '{group_id}' is a share group: use `kohort share-groups reset-offsets {group_id}`.",
            err=True,
        )
        return False
    state = group.state
    if state not in INACTIVE:
        print_line(
            f"Error: Assignments can only be reset if the group '{group_id}' is inactive,"
            f" but the current state is {state}.",
            err=True,
        )
    return state in INACTIVE


def _is_inactive_share_group(admin: Admin, group_id: str) -> bool:
    try:
        group = describe_one(admin, group_id)
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND and "not found" in str(error):
            return True  # Setting its offsets makes it.
        raise
    if group.state not in INACTIVE:
        raise click.ClickException(f"Share group '{group_id}' is not empty.")
    return True


def _set_committed(admin: Admin, group_id: str, offsets: dict[TopicPartition, int]) -> None:
    admin.alter_group_offsets(group_id, {each: OffsetAndMetadata(offset) for each, offset in offsets.items()})


def _share_starts(admin: Admin, group_id: str) -> Starts:
    found = admin.list_share_group_offsets(group_id)
    return {
        where: OffsetAndMetadata(each.start_offset)
        for where, each in found.items()
        if each.start_offset is not None
    }


CONSUMERS = Kind(
    "consumer groups",
    _is_inactive,
    lambda admin, group_id: admin.list_group_offsets(group_id),
    _set_committed,
)
SHARES = Kind(
    "share groups",
    _is_inactive_share_group,
    _share_starts,
    lambda admin, group_id, offsets: admin.alter_share_group_offsets(group_id, offsets),
)
