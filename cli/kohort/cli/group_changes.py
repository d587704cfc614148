"""`kohort groups reset-offsets`.

What it prints is what Kafka's own tool prints; a failure is an exit status of 1, too.
"""

import time
from pathlib import Path

import click

from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_file, print_json, print_line
from kohort.cli.reset_plan import ByGroup, Planner, Spec, from_csv, to_csv
from kohort.client import Admin, BrokerError, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

SHARE = "share"
INACTIVE = frozenset({"Empty", "Dead"})
DRY_RUN = "Nothing has been changed: give --execute to set these offsets."
NAME_WIDTH = 15


@click.command("reset-offsets")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Reset every group.")
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    metavar="NAME[:0,1]",
    help="These partitions; may be repeated.",
    shell_complete=complete_topics,
)
@click.option("--all-topics", is_flag=True, help="Every partition that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-current", is_flag=True, help="To what is committed, or behind the last record.")
@click.option("--to-offset", type=int, help="To this offset, as far as there are records.")
@click.option("--shift-by", type=int, help="Forward, or with a negative number back, by so many.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record since YYYY-MM-DDThh:mm:ss.sss (UTC)."
)
@click.option("--by-duration", metavar="DURATION", help="To the first record since PnDTnHnMnS ago.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To what a CSV file says.",
)
@click.option("--execute", is_flag=True, help="Set the offsets.  [default: only show them]")
@click.option("--dry-run", is_flag=True, help="Only show them, and say nothing of --execute.")
@click.option("--export", is_flag=True, help="Print CSV for --from-file, of another cluster for example.")
@json_option
@bootstrap_option
def reset_offsets(
    *,
    group_ids: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    from_file: Path | None,
    execute: bool,
    dry_run: bool,
    export: bool,
    as_json: bool,
    servers: str,
    **ways: object,
) -> None:
    """Show, or with --execute set, where groups read on. They must have no members.

    \b
    kohort groups reset-offsets billing --topic orders --to-earliest
    kohort groups reset-offsets billing --all-topics --shift-by -100 --execute
    """
    spec = Spec(**ways)  # type: ignore[arg-type]  # Click has made them what the options above say.
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of groups, or --all-groups")
    check_usage(spec, from_file, topics, all_topics)
    check_outcome(execute=execute, dry_run=dry_run, export=export, as_json=as_json)
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(
            each.group_id for each in admin.list_groups() if each.type.lower() != SHARE
        )
        planner = Planner(
            admin, time.time_ns() // 1_000_000, lambda text: print_line(f"Warn: {text}", err=True)
        )
        ready = tuple(each for each in wanted if _is_inactive(admin, each))
        plans: ByGroup
        if from_file is not None:
            said = from_csv(from_file.read_text(), wanted)
            plans = {each: planner.within_logs(said[each]) for each in ready}
        else:
            scope = None if all_topics else topics
            plans = {each: _plan(admin, planner, each, spec, scope) for each in ready}
        if execute:
            for group_id, offsets in plans.items():
                admin.alter_group_offsets(
                    group_id, {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
                )
    show_plans(plans, export=export, as_json=as_json)
    if plans and not execute and not dry_run:
        print_line(DRY_RUN, err=True)
    if len(ready) < len(wanted):
        raise click.exceptions.Exit(1)


def check_usage(spec: Spec, from_file: Path | None, topics: tuple[str, ...], all_topics: bool) -> None:
    """Return if exactly one way and one scope are given. Raises: click.UsageError."""
    if spec.count + (from_file is not None) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime,"
            " --by-duration and --from-file"
        )
    if from_file is None and bool(topics) == all_topics:
        raise click.UsageError("give --topic, or --all-topics")


def check_outcome(*, execute: bool, dry_run: bool, export: bool, as_json: bool) -> None:
    """Return if what is to be done and printed is one thing. Raises: click.UsageError."""
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    if export and as_json:
        raise click.UsageError("--export prints CSV: give it or --json, not both")


def show_plans(plans: ByGroup, *, export: bool, as_json: bool) -> None:
    """Print which offsets each group gets."""
    if export:
        print_file(to_csv(plans))
    elif as_json:
        print_json(plans_json(plans))
    else:
        for line in plan_table(plans):
            print_line(line)


def _is_inactive(admin: Admin, group_id: str) -> bool:
    """Whether a group's offsets may be set; says so where they may not."""
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


def _plan(
    admin: Admin, planner: Planner, group_id: str, spec: Spec, topics: tuple[str, ...] | None
) -> dict[TopicPartition, int]:
    committed = admin.list_group_offsets(group_id)
    partitions = sorted(committed) if topics is None else planner.partitions(topics)
    return planner.plan(spec, partitions, committed)


def plans_json(plans: ByGroup) -> list[dict[str, object]]:
    """Return the new offsets as JSON has them."""
    return [
        {"group": group_id, "topic": each.topic, "partition": each.partition, "new_offset": offset}
        for group_id, offsets in plans.items()
        for each, offset in sorted(offsets.items())
    ]


def plan_table(plans: ByGroup) -> list[str]:
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
