"""`kohort share-groups reset-offsets`, `delete-offsets` and `delete`.

What they print is what Kafka's own tool prints; a failure is an exit status of 1, too.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import click

from kohort.cli.completion import complete_share_groups, complete_topics
from kohort.cli.group_changes import DRY_RUN, INACTIVE, SHARE, check_outcome, check_usage, show_plans
from kohort.cli.options import bootstrap_option, json_option, open_admin, yes_option
from kohort.cli.output import ask_before, print_json, print_line
from kohort.cli.reset_plan import Planner, Spec, from_csv
from kohort.cli.share_group_views import describe_one
from kohort.client import Admin, BrokerError, ItemsError, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

NAME_WIDTH = 15


@click.command("reset-offsets")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_share_groups)
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    metavar="NAME[:0,1]",
    help="These partitions; may be repeated.",
    shell_complete=complete_topics,
)
@click.option("--all-topics", is_flag=True, help="Every partition that the group has.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-current", is_flag=True, help="To where it begins, or behind the last record.")
@click.option("--to-offset", type=int, help="To this offset, as far as there are records.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record since YYYY-MM-DDThh:mm:ss.sss (UTC)."
)
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
    group_id: str,
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
    """Show, or with --execute set, where GROUP begins. It must have no members.

    Records from there on are delivered again, those that were acknowledged too.

    \b
    kohort share-groups reset-offsets workers --topic jobs --to-earliest --execute
    """
    spec = Spec(**ways)  # type: ignore[arg-type]  # Click has made them what the options above say.
    check_usage(spec, from_file, topics, all_topics)
    check_outcome(execute=execute, dry_run=dry_run, export=export, as_json=as_json)
    with open_admin(servers) as admin:
        _check_inactive(admin, group_id)
        planner = Planner(
            admin, time.time_ns() // 1_000_000, lambda text: print_line(f"Warn: {text}", err=True)
        )
        if from_file is not None:
            plan = planner.within_logs(from_csv(from_file.read_text(), (group_id,))[group_id])
        else:
            begins = _begins(admin, group_id) if all_topics or spec.to_current else {}
            partitions = sorted(begins) if all_topics else planner.partitions(topics)
            plan = planner.plan(spec, partitions, begins)
        if execute and plan:
            admin.alter_share_group_offsets(group_id, plan)
    show_plans({group_id: plan} if plan else {}, export=export, as_json=as_json)
    if plan and not execute and not dry_run:
        print_line(DRY_RUN, err=True)


def _check_inactive(admin: Admin, group_id: str) -> None:
    """Return if the group's offsets may be set. Raises: click.ClickException, BrokerError."""
    try:
        group = describe_one(admin, group_id)
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND and "not found" in str(error):
            return  # Setting its offsets makes it.
        raise
    if group.state not in INACTIVE:
        raise click.ClickException(f"Share group '{group_id}' is not empty.")


def _begins(admin: Admin, group_id: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    found = admin.list_share_group_offsets(group_id)
    return {
        where: OffsetAndMetadata(each.start_offset)
        for where, each in found.items()
        if each.start_offset is not None
    }


@click.command("delete-offsets")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_share_groups)
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    required=True,
    metavar="NAME",
    help="May be repeated.",
    shell_complete=complete_topics,
)
@yes_option
@json_option
@bootstrap_option
def delete_offsets(group_id: str, topics: tuple[str, ...], yes: bool, as_json: bool, servers: str) -> None:
    """Let GROUP forget what it has done of topics. It must have no members."""
    wanted = tuple(dict.fromkeys(topics))
    with open_admin(servers) as admin:
        ask_before(f"Delete what {group_id} has done of {', '.join(wanted)}?", yes=yes)
        failed: dict[object, str] = {}
        try:
            admin.delete_share_group_offsets(group_id, *wanted)
        except ItemsError as error:
            failed = {item: str(each) for item, each in error.errors.items()}
    if as_json:
        print_json([{"topic": each, "error": failed.get(each)} for each in wanted])
    else:
        width = max([NAME_WIDTH, *map(len, wanted)])
        print_line()
        print_line(f"{'TOPIC':<{width}} STATUS")
        for each in sorted(wanted):
            print_line(f"{each:<{width}} {f'Error: {failed[each]}' if each in failed else 'Successful'}")
    if failed:
        raise click.exceptions.Exit(1)


@click.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_share_groups)
@click.option("--all-groups", is_flag=True, help="Delete every share group, once you have said yes.")
@yes_option
@json_option
@bootstrap_option
def delete_groups(
    group_ids: tuple[str, ...], all_groups: bool, yes: bool, as_json: bool, servers: str
) -> None:
    """Delete share groups with all that they know of records; they must have no members."""
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of share groups, or --all-groups")
    with open_admin(servers) as admin:
        known = {each.group_id for each in admin.list_groups(types=[SHARE])}
        wanted = tuple(dict.fromkeys(group_ids)) or tuple(sorted(known))
        errors = {each: f"Group '{each}' is not a share group." for each in wanted if each not in known}
        ready = tuple(each for each in wanted if each in known)
        if ready:
            what = ", ".join(ready)
            ask_before(f"Delete {what} with all offsets?", yes=yes, unnamed=all_groups)
            try:
                admin.delete_groups(*ready)
            except ItemsError as error:
                errors |= {str(item): str(each) for item, each in error.errors.items()}
    deleted = ", ".join(f"'{each}'" for each in wanted if each not in errors)
    if as_json:
        print_json([{"group": each, "error": errors.get(each)} for each in wanted])
    elif errors:
        print_line("Error: Deletion of some share groups failed:", err=True)
        for name, text in errors.items():
            print_line(f"* Group '{name}' could not be deleted due to: {text}", err=True)
        if deleted:
            print_line()
            print_line(f"These share groups were deleted successfully: {deleted}")
    elif wanted:
        print_line(f"Deletion of requested share groups ({deleted}) was successful.")
    else:
        print_line("There are no share groups.")
    if errors:
        raise click.exceptions.Exit(1)
