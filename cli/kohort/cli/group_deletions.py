"""`delete-offsets`, `remove-members` and `delete` of `kohort groups` and `kohort share-groups`.

What they print is what Kafka's own tools print; a failure is an exit status of 1, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kohort.cli.completion import complete_groups, complete_share_groups
from kohort.cli.group_changes import CONSUMERS, NAME_WIDTH, SHARE, SHARES, Kind, topic_option
from kohort.cli.options import bootstrap_option, json_option, open_admin, together, yes_option
from kohort.cli.output import ask_before, print_json, print_line
from kohort.cli.reset_plan import Planner
from kohort.client import ItemsError


def delete_offsets_options(complete: Any, metavar: str) -> Callable[[Any], Any]:
    """Return the decorator that adds what says which offsets of which group are deleted."""
    return together(
        click.argument("group_id", metavar="GROUP", shell_complete=complete),
        topic_option(metavar, "May be repeated.", required=True),
        yes_option,
        json_option,
        bootstrap_option,
    )


@click.command("delete-offsets")
@delete_offsets_options(complete_groups, "NAME[:0,1]")
def delete_offsets(group_id: str, topics: tuple[str, ...], yes: bool, as_json: bool, servers: str) -> None:
    """Delete the offsets of GROUP for topics to which it is not subscribed."""
    with open_admin(servers) as admin:
        partitions = Planner(admin, 0, print_line).partitions(topics)
        ask_before(f"Delete the offsets of {group_id} in {', '.join(topics)}?", yes=yes)
        failed = _failed(lambda: admin.delete_group_offsets(group_id, *partitions))
    if failed:
        print_line("Error: Encountered some partition-level error, see the follow-up details.", err=True)
    elif not as_json:
        print_line(f"Request succeeded for deleting offsets from group {group_id}.")
    rows = [({"topic": each.topic, "partition": each.partition}, failed.get(each)) for each in partitions]
    _show_deleted(rows, as_json=as_json)


@click.command("delete-offsets")
@delete_offsets_options(complete_share_groups, "NAME")
def delete_share_offsets(
    group_id: str, topics: tuple[str, ...], yes: bool, as_json: bool, servers: str
) -> None:
    """Delete the state of GROUP for topics. It must have no members."""
    wanted = tuple(dict.fromkeys(topics))
    with open_admin(servers) as admin:
        ask_before(f"Delete what {group_id} has done of {', '.join(wanted)}?", yes=yes)
        failed = _failed(lambda: admin.delete_share_group_offsets(group_id, *wanted))
    _show_deleted([({"topic": each}, failed.get(each)) for each in sorted(wanted)], as_json=as_json)


def _failed(delete: Callable[[], object]) -> dict[object, str]:
    """Return what could not be deleted, and why."""
    try:
        delete()
    except ItemsError as error:
        return {item: str(each) for item, each in error.errors.items()}
    return {}


def _show_deleted(rows: Sequence[tuple[dict[str, Any], str | None]], *, as_json: bool) -> None:
    """Print what became of each. Raises: click.exceptions.Exit where one has failed."""
    if as_json:
        print_json([{**names, "error": error} for names, error in rows])
    else:
        width = max([NAME_WIDTH, *(len(names["topic"]) for names, _ in rows)])
        titles = {name: name.upper() for name in rows[0][0]}
        table = [
            (titles, "STATUS"),
            *((names, f"Error: {error}" if error else "Successful") for names, error in rows),
        ]
        print_line()
        for names, status in table:
            topic, *others = names.values()
            print_line(" ".join([f"{topic:<{width}}", *(f"{each:<10}" for each in others), f"{status:<15}"]))
    if any(error for _, error in rows):
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
    """Remove members from GROUP; their partitions go to the others. A live member joins again.

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


def delete_options(complete: Any, every: str) -> Callable[[Any], Any]:
    """Return the decorator that adds what says which groups are deleted."""
    return together(
        click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete),
        click.option("--all-groups", is_flag=True, help=f"Delete every {every}, after a confirmation."),
        yes_option,
        json_option,
        bootstrap_option,
    )


@click.command("delete")
@delete_options(complete_groups, "group")
def delete_groups(
    group_ids: tuple[str, ...], all_groups: bool, yes: bool, as_json: bool, servers: str
) -> None:
    """Delete groups with their offsets; they must have no members. At a terminal it asks first."""
    _delete(CONSUMERS, group_ids, all_groups=all_groups, yes=yes, as_json=as_json, servers=servers)


@click.command("delete")
@delete_options(complete_share_groups, "share group")
def delete_share_groups(
    group_ids: tuple[str, ...], all_groups: bool, yes: bool, as_json: bool, servers: str
) -> None:
    """Delete share groups with their state; they must have no members."""
    _delete(SHARES, group_ids, all_groups=all_groups, yes=yes, as_json=as_json, servers=servers)


def _delete(
    kind: Kind, group_ids: tuple[str, ...], *, all_groups: bool, yes: bool, as_json: bool, servers: str
) -> None:
    shown = "share groups" if kind is SHARES else "groups"
    if bool(group_ids) == all_groups:
        raise click.UsageError(f"give the names of {shown}, or --all-groups")
    with open_admin(servers) as admin:
        known = [each.group_id for each in admin.list_groups(types=[SHARE] if kind is SHARES else [])]
        wanted = tuple(dict.fromkeys(group_ids or known))
        errors = {
            each: f"Group '{each}' is not a share group."
            for each in wanted
            if kind is SHARES and each not in known
        }
        ready = [each for each in wanted if each not in errors]
        if ready:
            _ask(ready, yes=yes, unnamed=all_groups)
            errors |= {str(item): text for item, text in _failed(lambda: admin.delete_groups(*ready)).items()}
    deleted = ", ".join(f"'{each}'" for each in wanted if each not in errors)
    if as_json:
        print_json([{"group": each, "error": errors.get(each)} for each in wanted])
    elif errors:
        _print_failed(kind, errors, deleted)
    elif wanted:
        print_line(f"Deletion of requested {kind.noun} ({deleted}) was successful.")
    else:
        print_line(f"There are no {shown}.")
    if errors:
        raise click.exceptions.Exit(1)


def _ask(group_ids: Sequence[str], *, yes: bool, unnamed: bool) -> None:
    """Return if they may be deleted. Raises: click.ClickException where somebody says no."""
    if unnamed and not yes:
        for each in group_ids:
            print_line(each, err=True)
    count = len(group_ids)
    many = "this group" if count == 1 else f"these {count:,} groups"
    what = many if unnamed else ", ".join(group_ids)
    ask_before(f"Delete {what} with all offsets?", yes=yes, unnamed=unnamed)


def _print_failed(kind: Kind, errors: Mapping[str, str], deleted: str) -> None:
    print_line(f"Error: Deletion of some {kind.noun} failed:", err=True)
    for name, text in errors.items():
        print_line(f"* Group '{name}' could not be deleted due to: {text}", err=True)
    if deleted:
        print_line()
        print_line(f"These {kind.noun} were deleted successfully: {deleted}")
