"""`kohort groups delete-offsets`, `remove-members` and `delete`: what cannot be undone.

What they print is what Kafka's own tool prints; a failure is an exit status of 1, too.
"""

from collections.abc import Sequence

import click

from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import bootstrap_option, json_option, open_admin, yes_option
from kohort.cli.output import ask_before, print_json, print_line
from kohort.cli.reset_plan import Planner
from kohort.client import Admin, ItemsError

NAME_WIDTH = 15


@click.command("delete-offsets")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    required=True,
    metavar="NAME[:0,1]",
    help="May be repeated.",
    shell_complete=complete_topics,
)
@yes_option
@json_option
@bootstrap_option
def delete_offsets(group_id: str, topics: tuple[str, ...], yes: bool, as_json: bool, servers: str) -> None:
    """Let GROUP forget its offsets of topics to which it does not subscribe."""
    with open_admin(servers) as admin:
        partitions = Planner(admin, 0, print_line).partitions(topics)
        ask_before(f"Delete the offsets of {group_id} in {', '.join(topics)}?", yes=yes)
        failed: dict[object, str] = {}
        try:
            admin.delete_group_offsets(group_id, *partitions)
        except ItemsError as error:
            failed = {item: str(each) for item, each in error.errors.items()}
    if failed:
        print_line("Error: Encountered some partition-level error, see the follow-up details.", err=True)
    elif not as_json:
        print_line(f"Request succeeded for deleting offsets from group {group_id}.")
    if as_json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "error": failed.get(each)}
                for each in partitions
            ]
        )
    else:
        width = max([NAME_WIDTH, *(len(each.topic) for each in partitions)])
        print_line()
        print_line(f"{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
        for each in partitions:
            status = f"Error: {failed[each]}" if each in failed else "Successful"
            print_line(f"{each.topic:<{width}} {each.partition:<10} {status:<15}")
    if failed:
        raise click.exceptions.Exit(1)


@click.command("remove-members")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--member", "member_ids", multiple=True, metavar="ID", help="By consumer id; may be repeated.")
@click.option(
    "--instance", "instance_ids", multiple=True, metavar="ID", help="By group.instance.id; may be repeated."
)
@click.option("--all", "all_members", is_flag=True, help="Every member.")
@yes_option
@json_option
@bootstrap_option
def remove_members(
    *,
    group_id: str,
    member_ids: tuple[str, ...],
    instance_ids: tuple[str, ...],
    all_members: bool,
    yes: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Make members leave GROUP; what they read goes to the others. One that lives joins again.

    \b
    kohort groups remove-members billing --instance billing-3
    """
    if bool(member_ids or instance_ids) == all_members:
        raise click.UsageError("give --member and --instance, or --all")
    with open_admin(servers) as admin:
        if all_members:
            member_ids = tuple(each.member_id for each in admin.describe_groups(group_id)[group_id].members)
        count = len(member_ids) + len(instance_ids)
        what = "this member" if count == 1 else f"these {count:,} members"
        if count:
            ask_before(f"Remove {what} from {group_id}?", yes=yes, unnamed=all_members)
            admin.remove_group_members(group_id, member_ids=member_ids, group_instance_ids=instance_ids)
    if as_json:
        print_json({"group": group_id, "removed": [*member_ids, *instance_ids]})
    else:
        print_line(f"Removed {count:,} member{'' if count == 1 else 's'} from {group_id}.")


@click.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Delete every group, once you have said yes.")
@yes_option
@json_option
@bootstrap_option
def delete_groups(
    group_ids: tuple[str, ...], all_groups: bool, yes: bool, as_json: bool, servers: str
) -> None:
    """Delete groups with their offsets; they must have no members. At a terminal it asks first."""
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of groups, or --all-groups")
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(each.group_id for each in admin.list_groups())
        if not wanted and not as_json:
            print_line("There are no groups.")
        failed = _delete(admin, wanted, yes=yes, unnamed=all_groups) if wanted else None
    if as_json:
        errors = {} if failed is None else {str(item): str(each) for item, each in failed.errors.items()}
        print_json([{"group": each, "error": errors.get(each)} for each in wanted])
    elif failed is not None:
        _print_failed(failed)
    elif wanted:
        names = ", ".join(f"'{each}'" for each in wanted)
        print_line(f"Deletion of requested consumer groups ({names}) was successful.")
    if failed is not None:
        raise click.exceptions.Exit(1)


def _delete(admin: Admin, group_ids: Sequence[str], *, yes: bool, unnamed: bool) -> ItemsError | None:
    """Return what could not be deleted. Raises: click.ClickException where somebody says no."""
    if unnamed and not yes:
        for each in group_ids:
            print_line(each, err=True)
    count = len(group_ids)
    what = "this group" if count == 1 else f"these {count:,} groups"
    ask_before(
        f"Delete {what if unnamed else ', '.join(group_ids)} with all offsets?", yes=yes, unnamed=unnamed
    )
    try:
        admin.delete_groups(*group_ids)
    except ItemsError as error:
        return error
    return None


def _print_failed(error: ItemsError) -> None:
    print_line("Error: Deletion of some consumer groups failed:", err=True)
    for item, each in error.errors.items():
        print_line(f"* Group '{item}' could not be deleted due to: {each}", err=True)
    if error.results:
        deleted = ", ".join(f"'{each}'" for each in error.results)
        print_line()
        print_line(f"These consumer groups were deleted successfully: {deleted}")
