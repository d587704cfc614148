"""Groups on the live page: a sorted list, and one group with the story of its rebalances."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kohort.broker.explain.advice import Advice, advice_of
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.story import story, time_zones
from kohort.broker.explain.views import GroupView, view_of
from kohort.broker.group.group import AnyGroup
from kohort.broker.http.group_lag import by_group, fitting, lag_of_row
from kohort.broker.http.live.history import GROUP, History
from kohort.broker.http.share_lag import lag_of, share_lags
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag, worst

GROUPS_SHOWN = 100
OFFSETS_SHOWN = 500
MEMBERS_SHOWN = 500
MOVES_SHOWN = 200
PARTITIONS_TIMED_MAX = 5_000
"""The limit for all groups in a list together: finding the age of unread records reads the disk."""
PARTITIONS_PER_SLICE = 1_000
STORM_REBALANCES = 4
STORM_MS = 300_000

Json = Mapping[str, object]


class Row(msgspec.Struct, frozen=True, gc=False):
    """A group in a list. There may be very many: the garbage collector need not look at them."""

    group_id: str
    type: str
    state: str
    members: int
    generation_id: int
    lag: int
    rebalances: int
    last_rebalance_ms: int | None
    cause: str
    storm: int


class _Chosen(NamedTuple):
    """The rows of a list, and the totals of all groups."""

    total: int
    matching: int
    by_state: dict[str, int]
    rows: list[tuple[Row, AnyGroup]]


async def list_view(view: View, parameters: Mapping[str, str], history: History) -> Json:
    """Return the first groups, in the order asked for, whose ids contain `q`. Gives way in between."""
    chosen = await _choose(view, parameters.get("q", "").casefold(), parameters.get("order", "lag"))
    history.want(GROUP, [group.group_id for _, group in chosen.rows])
    timed = await view.lag(fitting((group for _, group in chosen.rows), PARTITIONS_TIMED_MAX))
    lags = by_group(timed)
    return {
        "total": chosen.total,
        "matching": chosen.matching,
        "by_state": chosen.by_state,
        "loading": len(view.loading()),
        "groups": [_with_times(row, lags.get(row.group_id)) for row, _ in chosen.rows],
    }


async def _choose(view: View, text: str, order: str) -> _Chosen:
    states: dict[str, int] = {}
    rows: list[tuple[Row, AnyGroup]] = []
    total = 0
    slices = Slices(PARTITIONS_PER_SLICE)
    for group in list(view.groups()):
        total += 1
        states[group.state.value] = states.get(group.state.value, 0) + 1
        if text in group.group_id.casefold():
            rows.append((await _row(view, group, slices), group))
        await slices.did(5)
    rows = await _with_share_lags(view, rows)
    rows.sort(key=_KEYS.get(order, _KEYS["lag"]))
    return _Chosen(total, len(rows), states, rows[:GROUPS_SHOWN])


async def _with_share_lags(view: View, rows: list[tuple[Row, AnyGroup]]) -> list[tuple[Row, AnyGroup]]:
    """Return the rows with the lag of share groups, which commit nothing."""
    shared = [group.group_id for _, group in rows if not group.has_offsets]
    if not shared:
        return rows
    found = await share_lags(view, shared)
    lags = {group_id: sum(each.lag or 0 for each in lag) for group_id, lag in found.items()}
    return [(msgspec.structs.replace(row, lag=lags.get(row.group_id, row.lag)), group) for row, group in rows]


_KEYS = {
    "lag": lambda each: (-each[0].lag, each[0].group_id),
    "name": lambda each: (each[0].group_id,),
    "members": lambda each: (-each[0].members, each[0].group_id),
    "state": lambda each: (each[0].state, each[0].group_id),
}


async def _row(view: View, group: AnyGroup, slices: Slices) -> Row:
    rebalances = view.rebalances(group.group_id)
    ongoing, history = rebalances.ongoing, rebalances.history
    last = history[-1] if history else None
    cause = ongoing.cause if ongoing is not None else None if last is None else last.cause
    return Row(
        group.group_id,
        group.group_type,
        group.state.value,
        group.member_count,
        group.generation_id,
        await _offset_lag(view, group, slices),
        len(history),
        None if last is None else last.started_ms,
        "" if cause is None else cause.kind.value,
        storm(history),
    )


async def _offset_lag(view: View, group: AnyGroup, slices: Slices) -> int:
    """Return the known lag of all its partitions together."""
    lag = 0
    for each in view.behind(group):
        lag += each or 0
        await slices.did()
    return lag


def _with_times(row: Row, lag: list[PartitionLag] | None) -> Json:
    return {
        **msgspec.structs.asdict(row),
        "lag": row.lag if lag is None else sum(each.lag or 0 for each in lag),
        **lag_of_row(lag or ()),
    }


def storm(history: Iterable[RebalanceReport]) -> int:
    """Return the highest number of rebalances within five minutes, 0 if that is no storm."""
    starts = [each.started_ms for each in history if not each.is_initial]
    most = first = 0
    for place, started_ms in enumerate(starts):
        while started_ms - starts[first] > STORM_MS:
            first += 1
        most = max(most, place - first + 1)
    return most if most >= STORM_REBALANCES else 0


async def group_view(view: View, group: AnyGroup, now_ms: int) -> Json:
    """Return one group: who owns what, how far it is behind, and each rebalance with its story."""
    lag = await lag_of(view, group)
    verdicts = [each.verdict for each in lag if each.verdict is not None]
    rebalances = view.rebalances(group.group_id)
    told = advice_of(rebalances.history)
    described = view_of(group, rebalances, now_ms)
    furthest = sorted(lag, key=lambda each: (-(each.lag or 0), each.topic, each.partition))
    return {
        **_of_view(described),
        "type": group.group_type,
        "now_ms": now_ms,
        "time_zone": time_zones(now_ms),
        "may_write": view.asks() is not None,
        "lag": sum(each.lag or 0 for each in lag),
        "lag_seconds": max((each.lag_seconds or 0 for each in lag), default=0),
        "verdict": worst(*verdicts) if verdicts else None,
        "storm": storm(rebalances.history),
        "rebalances": [_rebalance(report, advice) for report, advice in told],
        "offsets": furthest[:OFFSETS_SHOWN],
        "offsets_left_out": max(0, len(lag) - OFFSETS_SHOWN),
    }


def _of_view(described: GroupView) -> dict[str, object]:
    fields = {name: getattr(described, name) for name in described.__struct_fields__ if name != "history"}
    fields["members"] = described.members[:MEMBERS_SHOWN]
    fields["members_left_out"] = max(0, len(described.members) - MEMBERS_SHOWN)
    return fields


def _rebalance(report: RebalanceReport, advice: Sequence[Advice]) -> Json:
    return {
        "generation_id": report.generation_id,
        "outcome": report.outcome.value,
        "cause": report.cause.kind.value,
        "started_ms": report.started_ms,
        "join_ms": report.join_ms,
        "sync_ms": report.sync_ms,
        "still_ms": report.still_ms,
        "members": report.members,
        "moved": len(report.moves),
        "waited_for": report.waited_for[:20],
        "moves": report.moves[:MOVES_SHOWN],
        "story": story(report, advice),
    }
