"""Groups as JSON: where each stands, who is in it, how far it has read, and why it rebalanced.

Times are in milliseconds since 1970, durations in milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kohort.broker.explain.advice import advice_of
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.explain.views import GroupView, view_of
from kohort.broker.group.events import Cause
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.state import GroupState
from kohort.broker.http.share_lag import lag_of
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag, worst

if TYPE_CHECKING:
    from kohort.broker.telemetry.evidence import ClientEvidence

SLICE = 200

T = TypeVar("T")
R = TypeVar("R")
Json = Mapping[str, object]
"""What msgspec writes as JSON: plain values, and the core's own structs."""


async def list_groups(view: View) -> Json:
    """Return every group in short, and the shards whose groups are not known yet. Gives way in between."""
    groups = await in_slices(lambda each: _summary(each, view.rebalances(each.group_id)), list(view.groups()))
    groups.sort(key=attrgetter("group_id"))
    return {"groups": groups, "loading": view.loading()}


async def in_slices(function: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """Return what `function` makes of each value, and let others have the loop now and then."""
    made: list[R] = []
    slices = Slices(SLICE)
    for value in values:
        made.append(function(value))
        await slices.did()
    return made


class GroupSummary(msgspec.Struct, frozen=True, gc=False):
    """A group in short. There may be very many: the garbage collector need not look at them."""

    group_id: str
    state: GroupState
    protocol_type: str
    generation_id: int
    member_count: int
    rebalance_cause: Cause | None
    last_rebalance_cause: Cause | None


def _summary(group: AnyGroup, rebalances: GroupRebalances) -> GroupSummary:
    rebalance = rebalances.ongoing
    last = rebalances.history[-1] if rebalances.history else None
    return GroupSummary(
        group.group_id,
        group.state,
        group.protocol_type or "",
        group.generation_id,
        group.member_count,
        None if rebalance is None else rebalance.cause,
        None if last is None else last.cause,
    )


async def describe_group(view: View, group: AnyGroup, now_ms: int) -> Json:
    """Return everything about one group: `GroupView`, and how far behind it is in each partition."""
    lag = await lag_of(view, group)
    verdicts = [each.verdict for each in lag if each.verdict is not None]
    rebalances = view.rebalances(group.group_id)
    seen = view_of(group, rebalances, now_ms)
    return {
        **msgspec.structs.asdict(seen),
        "advice": [
            {"generation_id": report.generation_id, "started_ms": report.started_ms, "advice": found}
            for report, found in advice_of(rebalances.history)
            if found
        ],
        "clients": _clients(view, seen),
        "verdict": worst(*verdicts),
        "lag": sum(each.lag or 0 for each in lag),
        "lag_seconds": max((each.lag_seconds or 0 for each in lag), default=0),
        "offsets": await in_slices(partial(_offset, group), lag),
    }


def _clients(view: View, seen: GroupView) -> "list[ClientEvidence]":
    """Return what the group's clients have sent of their metrics to this broker.

    A client says itself which group it is in: others could write into the explanation of a group that they
    may not join. Only what a member sends is told, present or past: by member id, or by client id and host.
    """
    taken = view.telemetry()
    reports = [] if taken is None else taken.reports.of_group(seen.group_id, taken.now_ms())
    if not reports:
        return []
    from kohort.broker.telemetry.evidence import evidence_of  # noqa: PLC0415  # Most brokers need none.
    from kohort.broker.telemetry.otlp import TEXT_MAX  # noqa: PLC0415

    member_ids = _member_ids(seen)
    found = [(each.client_id, each.client_host) for each in seen.members]
    found += [(each.client_id, each.client_host) for each in _causes(seen) if each.client_host]
    clients = {(client_id[:TEXT_MAX], host.removeprefix("/")) for client_id, host in found}
    return evidence_of(
        each
        for each in reports
        if each.labels.get("group_member_id") in member_ids or (each.client_id, each.client_host) in clients
    )


def _member_ids(seen: GroupView) -> set[str | None]:
    """Return the ids of the members, and of all members that the kept rebalances name."""
    found: set[str | None] = {each.member_id for each in seen.members}
    found.update(each.member_id for each in _causes(seen))
    for past in seen.history:
        found.update(past.removed_member_ids)
        found.update(each.member_id for each in past.waited_for)
        for move in past.moves:
            found.update((move.from_member_id, move.to_member_id))
    return found - {None, ""}


def _causes(seen: GroupView) -> Iterator[Cause]:
    for each in (*seen.history, *(() if seen.rebalance is None else (seen.rebalance,))):
        yield each.cause
        yield from each.further_causes


def _offset(group: AnyGroup, lag: PartitionLag) -> Json:
    value = group.offsets.get(lag.topic, {}).get(lag.partition)
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "leader_epoch": -1 if value is None else value.leader_epoch,
        "metadata": "" if value is None else value.metadata,
        "commit_timestamp_ms": None if value is None else value.commit_timestamp,
        "high_watermark": lag.end_offset,
        "lag": lag.lag,
        "lag_seconds": lag.lag_seconds,
        "verdict": lag.verdict,
        "complete": lag.complete,
        "end_age_seconds": lag.end_age_seconds,
    }
