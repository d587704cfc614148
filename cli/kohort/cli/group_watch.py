"""`kohort groups watch`: state, members and lag of groups, looked at again and again."""

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

import click

from kohort.cli.completion import complete_groups
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import Coloured, clear_terminal, print_encoded, print_parts
from kohort.client import LATEST, Admin, GroupDescription, OffsetAndMetadata, TopicPartition
from kohort.protocol.printable import printable

COLOURS = {"Stable": "green", "Empty": "white"}
NAME_WIDTH = 15
SHARE = "share"
ROWS_MAX_ON_TERMINAL = 40


@dataclass(frozen=True, slots=True)
class Look:
    """One group at one moment; the lag is that of all its partitions together."""

    group_id: str
    state: str
    members: int
    lag: int
    lag_per_second: float | None = None
    """By how much the lag grew since the last look; negative while the group catches up."""


@click.command()
@click.argument("group_ids", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between updates.",
)
@click.option(
    "--count", "-n", type=click.IntRange(1), help="Stop after this many updates.  [default: Ctrl-C]"
)
@json_option
@bootstrap_option
def watch(
    *, group_ids: tuple[str, ...], interval: float, count: int | None, as_json: bool, servers: str
) -> None:
    """Watch groups, these or all: state, members, lag and by how much it grows or shrinks each second.

    On a terminal the table is updated in place. Elsewhere each update is printed after the last, with --json
    as one line of JSON.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    looks: dict[str, Look] = {}
    last = time.monotonic()
    with open_admin(servers) as admin:
        try:
            for number in _numbers(count):
                if number:
                    time.sleep(interval)
                now = time.monotonic()
                looks = with_growth(look_at(admin, group_ids), looks, now - last if number else None)
                last = now
                _show(list(looks.values()), number, as_json=as_json)
        except KeyboardInterrupt:
            return  # That is how one ends it.


def _numbers(count: int | None) -> Iterator[int]:
    number = 0
    while count is None or number < count:
        yield number
        number += 1


def look_at(admin: Admin, group_ids: Sequence[str]) -> list[Look]:
    """Return how these groups are, or all. Raises: BrokerError, ItemsError, RequestTimeoutError."""
    wanted = list(group_ids) or [each.group_id for each in admin.list_groups()]
    if not wanted:
        return []
    described = admin.describe_groups(*wanted)
    shared = [each for each in wanted if described[each].type == SHARE]
    committing = [each for each in wanted if described[each].type != SHARE]
    committed = admin.list_offsets_of_groups(dict.fromkeys(committing)) if committing else {}
    existing = set(admin.list_topics(include_internal=True))
    partitions = {each for offsets in committed.values() for each in offsets if each.topic in existing}
    found = admin.list_offsets(dict.fromkeys(sorted(partitions), LATEST)) if partitions else {}
    ends = {each: value.offset for each, value in found.items()}
    lags = {each: _lag(committed[each], ends) for each in committing}
    for each in shared:  # Members acknowledge records, and commit nothing.
        lags[each] = sum(offset.lag or 0 for offset in admin.list_share_group_offsets(each).values())
    return [_look(described[each], lags[each]) for each in sorted(wanted)]


def _look(group: GroupDescription, lag: int) -> Look:
    return Look(group.group_id, group.state, len(group.members), lag)


def _lag(committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, ends[each] - value.offset) for each, value in committed.items() if each in ends)


def with_growth(looks: Sequence[Look], before: Mapping[str, Look], seconds: float | None) -> dict[str, Look]:
    """Return the looks by group, each with the growth of its lag since the look `seconds` before."""
    grown: dict[str, Look] = {}
    for each in looks:
        earlier = before.get(each.group_id)
        growth = None if earlier is None or not seconds else (each.lag - earlier.lag) / seconds
        grown[each.group_id] = Look(each.group_id, each.state, each.members, each.lag, growth)
    return grown


def _show(looks: Sequence[Look], number: int, *, as_json: bool) -> None:
    if as_json:
        groups = [
            {
                "group": each.group_id,
                "state": each.state,
                "members": each.members,
                "lag": each.lag,
                "lag_per_second": each.lag_per_second,
            }
            for each in looks
        ]
        print_encoded(json.dumps({"time_ms": time.time_ns() // 1_000_000, "groups": groups}))
    else:
        _print_table(looks, number)
    sys.stdout.flush()


def _print_table(looks: Sequence[Look], number: int) -> None:
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        clear_terminal()
    elif number:
        print_parts()
    shown = sorted(looks, key=lambda each: -each.lag)[:ROWS_MAX_ON_TERMINAL] if on_terminal else looks
    names = [printable(each.group_id) for each in shown]
    width = max([NAME_WIDTH, *map(len, names)])
    print_parts(f"{'GROUP':<{width}} {'STATE':<20} {'#MEMBERS':>8} {'LAG':>12} {'LAG/S':>10}")
    for name, each in zip(names, shown, strict=True):
        state = Coloured(f"{each.state:<20}", COLOURS.get(each.state, "yellow"))
        growth = "-" if each.lag_per_second is None else f"{each.lag_per_second:+,.1f}"
        print_parts(f"{name:<{width}} ", state, f" {each.members:>8} {each.lag:>12,} {growth:>10}")
    if len(shown) < len(looks):
        print_parts(f"and {len(looks) - len(shown)} groups with less lag")


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
