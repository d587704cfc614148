"""The values on the metrics page of every partition and every group, gathered in slices of the loop.

The loop's thread gathers plain values; another thread makes metrics and text from them. The number of groups
and partitions with their own series is limited, so that a client that creates ten thousand of them does not
make the page unreadable. The totals include the others, and a metric counts them.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kohort.broker.group.group import CLASSIC, AnyGroup
from kohort.broker.group.state import GroupState
from kohort.broker.http.group_lag import fitting
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag
from kohort.broker.metadata import TopicState

SLICE = 50
GROUPS_PER_SLICE = 500


class LogFacts(NamedTuple):
    """The log of a partition that serves."""

    topic: str
    partition: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int


class LogTotals(NamedTuple):
    """All partitions of this broker, and the logs that have series of their own."""

    partitions: int
    offline: int
    left_out: int
    logs: list[LogFacts]


class GroupTotals(NamedTuple):
    """All groups together, and the groups with their own series."""

    by_state: dict[GroupState, int]
    by_type: dict[str, int]
    by_type_and_state: dict[tuple[str, GroupState], int]
    members: int
    offsets: int
    left_out: int
    shown: list[AnyGroup]


class Facts(NamedTuple):
    """The tables behind the page."""

    partitions: LogTotals
    groups: GroupTotals
    topics: list[TopicState]
    partitions_max: int
    brokers: int
    lag: list[PartitionLag]
    members: list[tuple[str, int]]


async def gather(view: View) -> Facts:
    """Return the facts as of now, or nearly: what changes meanwhile may be seen before or after."""
    partitions = await _log_totals(view)
    groups = await _group_totals(view)
    members = [(group.group_id, group.member_count) for group in groups.shown]
    lag = await view.lag(groups.shown)
    topics, limit = list(view.topics()), view.limits.partitions_max
    return Facts(partitions, groups, topics, limit, view.brokers(), lag, members)


async def _log_totals(view: View) -> LogTotals:
    count = offline = left_out = 0
    logs: list[LogFacts] = []
    slices = Slices(SLICE)
    for partition in list(view.partitions()):
        count += 1
        if partition.offline is not None:
            offline += 1
        elif partition.opened and len(logs) >= view.limits.partitions_max:
            left_out += 1
        elif partition.opened:
            log = partition.log
            logs.append(
                LogFacts(
                    partition.topic,
                    str(partition.index),
                    log.log_start_offset,
                    log.log_end_offset,
                    partition.high_watermark,
                    log.size_bytes,
                )
            )
        await slices.did()
    return LogTotals(count, offline, left_out, logs)


async def _group_totals(view: View) -> GroupTotals:
    """Return the totals of all groups. If not all can be shown, groups with members come first."""
    states: dict[GroupState, int] = {state: 0 for state in GroupState if state is not GroupState.DEAD}
    types = {CLASSIC: 0}
    both: dict[tuple[str, GroupState], int] = {}
    members = offsets = count = 0
    limit = view.limits.groups_max
    with_members: list[AnyGroup] = []
    without: list[AnyGroup] = []
    slices = Slices(GROUPS_PER_SLICE)
    for group in list(view.groups()):
        states[group.state] = states.get(group.state, 0) + 1
        types[group.group_type] = types.get(group.group_type, 0) + 1
        key = (group.group_type, group.state)
        both[key] = both.get(key, 0) + 1
        members += group.member_count
        offsets += sum(map(len, group.offsets.values()))
        kind = with_members if group.member_count else without
        if len(kind) < limit:
            kind.append(group)
        count += 1
        await slices.did()
    shown = list(fitting([*with_members, *without][:limit], view.limits.partitions_max))
    return GroupTotals(states, types, both, members, offsets, count - len(shown), shown)


def states(facts: Facts) -> Iterator[tuple[tuple[str, str], int, int, int]]:
    """Yield (topic and partition, leader, replicas, replicas in sync) for every partition that is shown."""
    everywhere = (
        ((topic.name, str(each.index)), each.leader, len(each.replicas), len(each.isr))
        for topic in facts.topics
        for each in topic.partitions
    )
    return islice(everywhere, facts.partitions_max)
