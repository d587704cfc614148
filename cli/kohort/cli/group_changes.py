"""`kohort groups reset-offsets`, `delete-offsets` and `delete`.

What they print is what Kafka's own tool prints; a failure is an exit status of 1, too.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from kohort.cli.options import bootstrap_option
from kohort.cli.output import confirm, print_file, print_line
from kohort.cli.reset_plan import ByGroup, Planner, Spec, from_csv, to_csv
from kohort.cli.topics import open_admin
from kohort.client import Admin, BrokerError, ItemsError, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

INACTIVE = frozenset({"Empty", "Dead"})
DRY_RUN = "Nothing has been changed: give --execute to set these offsets."
NAME_WIDTH = 15


@click.command("reset-offsets")
@click.argument("group_ids", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="Reset every group.")
@click.option(
    "--topic", "-t", "topics", multiple=True, metavar="NAME[:0,1]", help="These partitions; may be repeated."
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
    _check_usage(spec, from_file, topics, all_topics)
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(each.group_id for each in admin.list_groups())
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
    if export:
        print_file(to_csv(plans))
    else:
        for line in _plan_table(plans):
            print_line(line)
    if not execute and not dry_run:
        print_line(DRY_RUN, err=True)
    if len(ready) < len(wanted):
        raise click.exceptions.Exit(1)


def _check_usage(spec: Spec, from_file: Path | None, topics: tuple[str, ...], all_topics: bool) -> None:
    if spec.count + (from_file is not None) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime,"
            " --by-duration and --from-file"
        )
    if from_file is None and bool(topics) == all_topics:
        raise click.UsageError("give --topic, or --all-topics")


def _is_inactive(admin: Admin, group_id: str) -> bool:
    """Whether a group's offsets may be set; says so where they may not."""
    try:
        state = admin.describe_groups(group_id)[group_id].state
    except BrokerError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return True  # Setting its offsets makes it.
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


def _plan_table(plans: ByGroup) -> list[str]:
    rows = [
        (group_id, each.topic, str(each.partition), str(offset))
        for group_id, offsets in plans.items()
        for each, offset in sorted(offsets.items())
    ]
    groups = max([NAME_WIDTH, *(len(row[0]) for row in rows)])
    names = max([NAME_WIDTH, *(len(row[1]) for row in rows)])
    titles = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    return ["", *(f"{row[0]:<{groups}} {row[1]:<{names}} {row[2]:<10} {row[3]}" for row in (titles, *rows))]


@click.command("delete-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic", "-t", "topics", multiple=True, required=True, metavar="NAME[:0,1]", help="May be repeated."
)
@bootstrap_option
def delete_offsets(group_id: str, topics: tuple[str, ...], servers: str) -> None:
    """Let GROUP forget its offsets of topics to which it does not subscribe."""
    with open_admin(servers) as admin:
        partitions = Planner(admin, 0, print_line).partitions(topics)
        failed: dict[object, str] = {}
        try:
            admin.delete_group_offsets(group_id, *partitions)
        except ItemsError as error:
            failed = {item: str(each) for item, each in error.errors.items()}
    if failed:
        print_line("Error: Encountered some partition-level error, see the follow-up details.", err=True)
    else:
        print_line(f"Request succeeded for deleting offsets from group {group_id}.")
    width = max([NAME_WIDTH, *(len(each.topic) for each in partitions)])
    print_line()
    print_line(f"{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
    for each in partitions:
        status = f"Error: {failed[each]}" if each in failed else "Successful"
        print_line(f"{each.topic:<{width}} {each.partition:<10} {status:<15}")
    if failed:
        raise click.exceptions.Exit(1)


@click.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="Delete every group, once you have said yes.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@bootstrap_option
def delete_groups(group_ids: tuple[str, ...], all_groups: bool, yes: bool, servers: str) -> None:
    """Delete groups with their offsets; they must have no members."""
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of groups, or --all-groups")
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(each.group_id for each in admin.list_groups())
        if not wanted:
            print_line("There are no groups.")
            return
        if all_groups and not yes:
            _ask(wanted)
        try:
            admin.delete_groups(*wanted)
        except ItemsError as error:
            print_line("Error: Deletion of some consumer groups failed:", err=True)
            for item, each in error.errors.items():
                print_line(f"* Group '{item}' could not be deleted due to: {each}", err=True)
            if error.results:
                deleted = ", ".join(f"'{each}'" for each in error.results)
                print_line()
                print_line(f"These consumer groups were deleted successfully: {deleted}")
            raise click.exceptions.Exit(1) from None
    names = ", ".join(f"'{each}'" for each in wanted)
    print_line(f"Deletion of requested consumer groups ({names}) was successful.")


def _ask(group_ids: Sequence[str]) -> None:
    """Return if they are to be deleted. Raises: click.ClickException if not."""
    for each in group_ids:
        print_line(each, err=True)
    count = len(group_ids)
    if not confirm(f"Delete {'this group' if count == 1 else f'these {count:,} groups'} with all offsets?"):
        raise click.ClickException("nothing was deleted; --yes deletes without asking")
