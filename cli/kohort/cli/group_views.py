"""`kohort groups list` and `describe`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import click
import msgspec

from kohort.cli.completion import complete_groups
from kohort.cli.group_tables import (
    STREAMS,
    OffsetRow,
    assigned_partitions,
    group_note,
    list_table,
    members_table,
    offset_rows,
    offsets_table,
    partition_count,
    state_table,
)
from kohort.cli.http_source import DEFAULT_HTTP, http_option
from kohort.cli.lag import with_lag
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_error, print_json, print_line
from kohort.client import LATEST, Admin, BrokerError, GroupDescription, RequestTimeoutError
from kohort.protocol.errors import ErrorCode

GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
)
SHARE = "share"
_Described = tuple[GroupDescription, list[OffsetRow]]
_Problem = BrokerError | RequestTimeoutError | click.ClickException


@click.command("list")
@click.option("--state", "with_state", is_flag=True, help="Print the state of each group.")
@click.option("--type", "with_type", is_flag=True, help="Print the type of each group.")
@click.option(
    "--in-state",
    "states",
    multiple=True,
    type=click.Choice(GROUP_STATES, case_sensitive=False),
    help="List only groups in this state; may be repeated.",
)
@json_option
@bootstrap_option
def list_groups(
    with_state: bool, with_type: bool, states: tuple[str, ...], as_json: bool, servers: str
) -> None:
    """Print the groups."""
    with open_admin(servers) as admin:
        found = admin.list_groups(states=states)
    if as_json:
        print_json(
            [
                {
                    "group": each.group_id,
                    "type": each.type,
                    "state": each.state,
                    "protocol_type": each.protocol_type,
                }
                for each in found
            ]
        )
        return
    for line in list_table(found, state=with_state, type_=with_type):
        print_line(line)


@click.command()
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Describe every group.")
@click.option(
    "--offsets", "what", flag_value="offsets", default="offsets", help="Offsets and lag.  [default]"
)
@click.option("--members", "what", flag_value="members", help="The members.")
@click.option("--state", "what", flag_value="state", help="State, coordinator and assignor.")
@click.option(
    "--lag", "lag", is_flag=True, help="Also print the lag in seconds, and whether the group keeps up."
)
@http_option("For --lag: the HTTP address of any broker of the cluster.", DEFAULT_HTTP)
@click.option("--verbose", is_flag=True, help="Also print epochs, and with --members the assignments.")
@json_option
@bootstrap_option
def describe(
    *,
    group_ids: tuple[str, ...],
    all_groups: bool,
    what: str,
    lag: bool,
    http: str,
    verbose: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Describe groups: offsets and lag, members, or state."""
    if bool(group_ids) == all_groups:
        raise click.UsageError("give the names of groups, or --all-groups")
    if lag and what != "offsets":
        raise click.UsageError("--lag is about offsets: give it without --members and --state")
    view = _VIEWS["lag" if lag else what]
    with open_admin(servers) as admin:
        wanted = group_ids or tuple(
            each.group_id for each in admin.list_groups() if each.type.lower() != SHARE
        )
        described, problems = _described(admin, wanted, view, http if lag else None)
    if as_json:
        print_json([view.as_json(group, rows) for group, rows in described])
    else:
        _print_groups(described, view, verbose=verbose)
    for problem in problems:
        print_error(problem)
    if problems:
        raise click.exceptions.Exit(1)


def _described(
    admin: Admin, group_ids: Sequence[str], view: "_View", http: str | None
) -> tuple[list[_Described], list[_Problem]]:
    """Return what could be learned of the groups, and why others could not be described."""
    described: list[_Described] = []
    problems: list[_Problem] = []
    for group_id in group_ids:
        try:
            group = _describe_one(admin, group_id)
            rows = view.collect(admin, group)
            described.append((group, rows if http is None else with_lag(rows, http, group_id)))
        except (BrokerError, RequestTimeoutError, click.ClickException) as problem:
            problems.append(problem)
    return described, problems


def _print_groups(described: Iterable[_Described], view: "_View", *, verbose: bool) -> None:
    for group, rows in described:
        note = group_note(group)
        if note is not None:
            print_line(err=True)
            print_line(note, err=True)
        lines = view.lines(group, rows, verbose)
        if lines:
            print_line()
        for line in lines:
            print_line(line)


def _describe_one(admin: Admin, group_id: str) -> GroupDescription:
    try:
        group = admin.describe_groups(group_id)[group_id]
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise BrokerError(error.code, f"Group {group_id} not found.") from None
        raise
    if group.type == SHARE:
        raise click.ClickException(
            f"{group_id} is a share group: `kohort share-groups describe {group_id}` shows it."
        )
    return group


def _collect_offsets(admin: Admin, group: GroupDescription) -> list[OffsetRow]:
    committed = admin.list_group_offsets(group.group_id)
    if group.type == STREAMS:  # Its members have tasks, which are no partitions.
        group = msgspec.structs.replace(group, members=())
    partitions = set(committed).union(*(assigned_partitions(each) for each in group.members))
    existing = set(admin.list_topics(include_internal=True))
    wanted = sorted(each for each in partitions if each.topic in existing)
    ends = admin.list_offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}
    return offset_rows(group, committed, {each: value.offset for each, value in ends.items()})


def _nothing(admin: Admin, group: GroupDescription) -> list[OffsetRow]:
    return []


def _offset_lines(group: GroupDescription, rows: list[OffsetRow], verbose: bool) -> list[str]:
    return offsets_table(rows, verbose=verbose) if rows else []


def _lag_lines(group: GroupDescription, rows: list[OffsetRow], verbose: bool) -> list[str]:
    return offsets_table(rows, verbose=verbose, lag=True) if rows else []


def _lag_json(group: GroupDescription, rows: list[OffsetRow]) -> dict[str, object]:
    offsets = [
        {**_offset_json(each), "lag_seconds": each.lag_seconds, "verdict": each.verdict} for each in rows
    ]
    return {"group": group.group_id, "state": group.state, "offsets": offsets}


def _member_lines(group: GroupDescription, rows: list[OffsetRow], verbose: bool) -> list[str]:
    return members_table(group, verbose=verbose)


def _state_lines(group: GroupDescription, rows: list[OffsetRow], verbose: bool) -> list[str]:
    return state_table(group, verbose=verbose)


def _offsets_json(group: GroupDescription, rows: list[OffsetRow]) -> dict[str, object]:
    return {"group": group.group_id, "state": group.state, "offsets": list(map(_offset_json, rows))}


def _offset_json(row: OffsetRow) -> dict[str, object]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "leader_epoch": row.leader_epoch,
        "current_offset": row.current_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "consumer_id": None if row.member is None else row.member.member_id,
        "host": None if row.member is None else row.member.host,
        "client_id": None if row.member is None else row.member.client_id,
    }


def _members_json(group: GroupDescription, rows: list[OffsetRow]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "members": [
            {
                "consumer_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "host": each.host,
                "client_id": each.client_id,
                "partitions": partition_count(each),
                "assignment": {topic: list(owned) for topic, owned in sorted(each.assignment.items())},
                "member_epoch": each.member_epoch,
                "target_epoch": group.assignment_epoch,
                "target_assignment": {
                    topic: list(owned) for topic, owned in sorted(each.target_assignment.items())
                },
            }
            for each in group.members
        ],
    }


def _state_json(group: GroupDescription, rows: list[OffsetRow]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "coordinator": {"id": group.coordinator.node_id, "address": group.coordinator.address},
        "assignment_strategy": group.assignor or None,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }


@dataclass(frozen=True, slots=True)
class _View:
    """One way to describe a group."""

    collect: Callable[[Admin, GroupDescription], list[OffsetRow]]
    lines: Callable[[GroupDescription, list[OffsetRow], bool], list[str]]
    as_json: Callable[[GroupDescription, list[OffsetRow]], dict[str, object]]


_VIEWS = {
    "offsets": _View(_collect_offsets, _offset_lines, _offsets_json),
    "lag": _View(_collect_offsets, _lag_lines, _lag_json),
    "members": _View(_nothing, _member_lines, _members_json),
    "state": _View(_nothing, _state_lines, _state_json),
}
