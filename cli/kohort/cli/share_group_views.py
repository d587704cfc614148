"""`kohort share-groups list` and `describe`, in the columns of Kafka's own tool.

Source: ShareGroupCommand of Apache Kafka 4.3: which columns there are and how wide.
"""

from collections.abc import Mapping, Sequence

import click

from kohort.cli.completion import complete_share_groups
from kohort.cli.group_tables import MISSING, NAME_WIDTH, partition_count
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_error, print_json, print_line
from kohort.client import (
    Admin,
    BrokerError,
    GroupDescription,
    MemberDescription,
    RequestTimeoutError,
    ShareGroupOffset,
    TopicPartition,
)
from kohort.protocol.errors import ErrorCode

SHARE = "share"
STATES = ("Empty", "Stable", "Dead")

Offsets = Mapping[TopicPartition, ShareGroupOffset]
Row = Sequence[str]


@click.command("list")
@click.option("--state", "with_state", is_flag=True, help="Print the state of each group.")
@click.option(
    "--in-state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="List only groups in this state; may be repeated.",
)
@json_option
@bootstrap_option
def list_groups(with_state: bool, states: tuple[str, ...], as_json: bool, servers: str) -> None:
    """Print the share groups."""
    with open_admin(servers) as admin:
        found = admin.list_groups(states=states, types=[SHARE])
    if as_json:
        print_json([{"group": each.group_id, "state": each.state} for each in found])
    elif with_state:
        _print_table([("GROUP", "STATE"), *((each.group_id, each.state) for each in found)], (NAME_WIDTH,))
    else:
        for each in found:
            print_line(each.group_id)


@click.command()
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_share_groups)
@click.option("--all-groups", is_flag=True, help="Describe every share group.")
@click.option(
    "--offsets",
    "what",
    flag_value="offsets",
    default="offsets",
    help="Start offsets and lag.  [default]",
)
@click.option("--members", "what", flag_value="members", help="The members.")
@click.option("--state", "what", flag_value="state", help="State and coordinator.")
@click.option("--verbose", is_flag=True, help="Also print epochs.")
@json_option
@bootstrap_option
def describe(
    *, group_ids: tuple[str, ...], all_groups: bool, what: str, verbose: bool, as_json: bool, servers: str
) -> None:
    """Describe share groups: start offsets and lag, members, or state.

    Records before START-OFFSET are completed; LAG counts the later ones that are not.
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of share groups, or --all-groups")
    described: list[tuple[GroupDescription, Offsets]] = []
    problems: list[BrokerError | RequestTimeoutError] = []
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(each.group_id for each in admin.list_groups(types=[SHARE]))
        for each in wanted:
            try:
                group = describe_one(admin, each)
                begins = admin.list_share_group_offsets(each) if what == "offsets" else {}
                described.append((group, begins))
            except (BrokerError, RequestTimeoutError) as error:
                problems.append(error)
    if as_json:
        print_json([_JSON[what](*each) for each in described])
    else:
        for group, offsets in described:
            _print_group(group, offsets, what, verbose=verbose)
    for problem in problems:
        print_error(problem)
    if problems:
        raise click.exceptions.Exit(1)


def describe_one(admin: Admin, group_id: str) -> GroupDescription:
    """Return the share group. Raises: BrokerError where there is none, or one of another kind."""
    try:
        group = admin.describe_groups(group_id)[group_id]
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise BrokerError(error.code, f"Share group {group_id} not found.") from None
        raise
    if group.type != SHARE:
        words = f"{group_id} is a {group.type} group: `kohort groups describe {group_id}` shows it."
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, words)
    return group


def _print_group(group: GroupDescription, offsets: Offsets, what: str, *, verbose: bool) -> None:
    if group.state == "Empty":
        print_line(err=True)
        print_line(f"Share group '{group.group_id}' has no active members.", err=True)
    if what == "offsets" and not offsets:
        print_line()
        print_line(f"Share group '{group.group_id}' has no offset information.")
    elif what == "offsets":
        print_line()
        _print_offsets(group.group_id, offsets, verbose=verbose)
    elif what == "state":
        print_line()
        _print_state(group, verbose=verbose)
    elif group.members:
        print_line()
        _print_members(group, verbose=verbose)


def _print_offsets(group_id: str, offsets: Offsets, *, verbose: bool) -> None:
    titles = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "START-OFFSET", "LAG"]
    rows: list[Row] = [titles]
    for where, each in sorted(offsets.items()):
        epoch = [_number(each.leader_epoch)] if verbose else []
        numbers = [*epoch, _number(each.start_offset), _number(each.lag)]
        rows.append([group_id, where.topic, str(where.partition), *numbers])
    _print_table(rows, (NAME_WIDTH, NAME_WIDTH, 10, *([13] if verbose else []), 13))


def _print_members(group: GroupDescription, *, verbose: bool) -> None:
    titles = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows: list[Row] = [[*titles, *(["MEMBER-EPOCH"] if verbose else []), "ASSIGNMENT"]]
    for each in group.members:
        cells = [group.group_id, each.member_id, each.host, each.client_id, str(partition_count(each))]
        rows.append([*cells, *([str(each.member_epoch)] if verbose else []), _assignment(each)])
    _print_table(rows, (*[NAME_WIDTH] * 4, 12, *([13] if verbose else [])))


def _print_state(group: GroupDescription, *, verbose: bool) -> None:
    coordinator = f"{group.coordinator.address}  ({group.coordinator.node_id})"
    epochs = ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"] if verbose else []
    told = [str(group.group_epoch), str(group.assignment_epoch)] if verbose else []
    _print_table(
        [
            ["GROUP", "COORDINATOR (ID)", "STATE", *epochs, "#MEMBERS"],
            [group.group_id, coordinator, group.state, *told, str(len(group.members))],
        ],
        (NAME_WIDTH, 25, 15, *([12, 17] if verbose else [])),
    )


def _print_table(rows: Sequence[Row], least: Sequence[int]) -> None:
    """Print columns that are as wide as they have to be, and the last one as it is."""
    widths = [max(width, *(len(row[index]) for row in rows)) for index, width in enumerate(least)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        print_line(" ".join([*cells, row[-1]]))


def _assignment(member: MemberDescription) -> str:
    owned = sorted(member.assignment.items())
    return ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in owned)


def _number(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _offsets_json(group: GroupDescription, offsets: Offsets) -> dict[str, object]:
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "start_offset": each.start_offset,
            "leader_epoch": each.leader_epoch,
            "lag": each.lag,
        }
        for where, each in sorted(offsets.items())
    ]
    return {"group": group.group_id, "state": group.state, "offsets": rows}


def _members_json(group: GroupDescription, _: Offsets) -> dict[str, object]:
    members = [
        {
            "consumer_id": each.member_id,
            "host": each.host,
            "client_id": each.client_id,
            "member_epoch": each.member_epoch,
            "partitions": partition_count(each),
            "assignment": {topic: list(owned) for topic, owned in sorted(each.assignment.items())},
        }
        for each in group.members
    ]
    return {"group": group.group_id, "state": group.state, "members": members}


def _state_json(group: GroupDescription, _: Offsets) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "coordinator": {"id": group.coordinator.node_id, "address": group.coordinator.address},
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }


_JSON = {"offsets": _offsets_json, "members": _members_json, "state": _state_json}
