"""What the live page asks an observer: groups, one group with its history, the cluster.

The answers have the shape of a broker's answers, so that one page shows both. They lack what only a broker
knows, and add what only an observer has, such as a likelihood.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version

import msgspec

from kohort.broker.explain.digest import digest, of_explanations
from kohort.broker.explain.findings import Explanation, FindingKind, Likelihood
from kohort.broker.explain.observed.story import observed_story
from kohort.broker.explain.story import time_zones
from kohort.observe.alerting import Alerting
from kohort.observe.alerts import QUIET_MS
from kohort.observe.group import ObservedGroup
from kohort.observe.group_json import Json, group_state, group_type, members_of
from kohort.observe.known import Histories, History, cannot_know, explained
from kohort.observe.lags import PlaceLag
from kohort.observe.observer import Observer
from kohort.observe.samples import INTERVAL_MS
from kohort.observe.store import Store
from kohort.observe.watched import HOUR_MS
from kohort.protocol.verdict import worst

GROUPS_SHOWN = 100
MEMBERS_SHOWN = 500
OFFSETS_SHOWN = 500
HISTORY_SHOWN = 300
PLACES_TIMED_MAX = 5_000
"""The number of partitions, of all groups in a list together, whose lag in seconds and verdict are found."""
GROUPS_AT_ONCE = 200
"""The follower waits while this number of groups is counted."""
LAST_EVENTS = 100
"""A group's last cause is concluded from this number of events."""
LAST_KEPT = 1_000
HOURS = (24, 1, 168, 0)
"""The hours of history that the page may ask for, the default first; 0 stands for all that is kept."""
_ORDERS: Mapping[str, Callable[["_Row"], tuple[object, ...]]] = {
    "lag": lambda each: (-each.lag, each.group_id),
    "name": lambda each: (each.group_id,),
    "members": lambda each: (-each.members, each.group_id),
    "state": lambda each: (each.state, each.group_id),
}

Parameters = Mapping[str, str]


class NoGroup(Exception):
    """There is no such group, or it is not known yet."""


class _Row(msgspec.Struct, frozen=True, gc=False):
    group_id: str
    type: str
    state: str
    members: int
    generation_id: int
    lag: int


class _Last(msgspec.Struct, frozen=True):
    """What happened to a group last; `number` is that of its newest event then."""

    number: int
    cause: str = ""
    ended_ms: int | None = None
    storm: int = 0


class LiveViews:
    """The views of one cluster. Any thread may ask."""

    def __init__(
        self,
        observer: Observer,
        now_ms: Callable[[], int],
        histories: Histories,
        alerting: Alerting | None = None,
    ) -> None:
        self._observer = observer
        self._watched = observer.watched
        self._now_ms = now_ms
        self._alerting = alerting
        self._last: dict[str, _Last] = {}
        self._histories = histories
        self._views: Mapping[str, Callable[[Parameters], Json]] = {
            "groups": self.groups,
            "group": lambda given: self.group(
                given.get("id", ""), given.get("hours", ""), has_history=given.get("history") != "no"
            ),
            "history": lambda given: self._samples(given.get("name", "")),
            "health": lambda _: self.cluster(),
        }

    def view(self, name: str, parameters: Parameters) -> Json | None:
        """Return a view, None where there is none of that name. Raises: NoGroup, StoreError."""
        make = self._views.get(name)
        return None if make is None else make(parameters)

    # Groups

    def groups(self, parameters: Parameters) -> Json:
        """Return the first groups, in the order asked for, whose ids contain `q`. Raises: StoreError."""
        text = parameters.get("q", "").casefold()
        every = [*self._rows()]
        by_state: dict[str, int] = {}
        for each in every:
            by_state[each.state] = by_state.get(each.state, 0) + 1
        matching = [each for each in every if text in each.group_id.casefold()]
        matching.sort(key=_ORDERS.get(parameters.get("order", ""), _ORDERS["lag"]))
        shown = matching[:GROUPS_SHOWN]
        return {
            "total": len(every),
            "matching": len(matching),
            "by_state": by_state,
            "loading": 0,
            "groups": [*self._with_times(shown)],
            "observer": self._state(),
            "cannot_know": [*cannot_know(self._watched)],
            "alerts": self._alerts(),
        }

    def _rows(self) -> Iterator[_Row]:
        groups, facts = self._watched.records.groups, self._watched.facts
        with self._watched.lock:
            ids = [*groups]
        for begin in range(0, len(ids), GROUPS_AT_ONCE):
            with self._watched.lock:
                some = [groups[each] for each in ids[begin : begin + GROUPS_AT_ONCE] if each in groups]
                rows = [
                    _Row(
                        each.group_id,
                        group_type(each),
                        group_state(each),
                        len(each.snapshot.members),
                        each.snapshot.generation_id,
                        sum(
                            max(facts.end_offset(*where) - place.offset, 0)
                            for where, place in each.places.items()
                        ),
                    )
                    for each in some
                ]
            yield from rows

    def _with_times(self, rows: Sequence[_Row]) -> Iterator[Json]:
        left = PLACES_TIMED_MAX
        last = self._last_of([each.group_id for each in rows])
        for row in rows:
            lags = self._lags(row.group_id, left)
            left -= 0 if lags is None else len(lags)
            told = last[row.group_id]
            is_recent = told.ended_ms is not None and self._now_ms() - told.ended_ms <= QUIET_MS
            yield {
                **msgspec.structs.asdict(row),
                "cause": told.cause,
                "last_rebalance_ms": told.ended_ms,
                "storm": told.storm if is_recent else 0,
                **_together(row.lag, lags),
            }

    def _lags(self, group_id: str, most: int) -> list[PlaceLag] | None:
        """Return the lag of each partition, None if there are more than `most` or the group is gone."""
        watched, now_ms = self._watched, self._now_ms()
        with watched.lock:
            group = watched.records.groups.get(group_id)
            if group is None or len(group.places) > most:
                return None
            return [watched.lags.lag_of(group_id, each, now_ms) for _, each in sorted(group.places.items())]

    def _last_of(self, group_ids: Sequence[str]) -> dict[str, _Last]:
        """Return what happened last to these groups, concluded again only if a group has a newer event."""
        cluster_id = self._watched.status.cluster_id
        with closing(Store(self._observer.store_path)) as store:
            numbers = {each: store.newest_of(cluster_id, each) for each in group_ids}
        found = {}
        for group_id, number in numbers.items():
            known = self._last.get(group_id)
            if known is None or known.number != number:
                known = self._concluded(group_id, number)
            found[group_id] = known
        kept = {group_id: each for group_id, each in self._last.items() if group_id not in found}
        self._last = {**found, **dict([*kept.items()][: max(LAST_KEPT - len(found), 0)])}
        return found

    def _concluded(self, group_id: str, number: int) -> _Last:
        if not number:
            return _Last(number)
        told = explained(self._observer, group_id, most=LAST_EVENTS).told
        if not told:
            return _Last(number)
        last = told[-1]
        return _Last(
            number, last.findings[0].kind.value, last.ended_ms, last.changes if _is_storm(last) else 0
        )

    def _alerts(self) -> list[Json]:
        """Return the alerts of this cluster that stand."""
        active = [] if self._alerting is None else self._alerting.active(self._observer.name)
        return [
            {
                "name": each.finding.name,
                "group_id": each.finding.group_id,
                "summary": each.finding.summary,
                "started_ms": each.started_ms,
            }
            for each in active
        ]

    # One group

    def group(self, group_id: str, hours: str, *, has_history: bool = True) -> Json:
        """Return one group, what happened to it, and why. Raises: NoGroup, StoreError."""
        watched, now_ms = self._watched, self._now_ms()
        shown_hours, (told, begins_ms) = 0, History([], None)
        if has_history:
            shown_hours, (told, begins_ms) = self._history(group_id, hours, now_ms)
        is_known = bool(told) or self._histories.is_known(group_id)
        watched.samples_wanted(group_id)
        with watched.lock:
            group = watched.records.groups.get(group_id)
            if group is None and not is_known:
                if watched.status.is_caught_up:
                    raise NoGroup(f"there is no group {group_id}")
                raise NoGroup(f"the observer still reads __consumer_offsets, and has not met {group_id} yet")
            group = group or ObservedGroup(group_id, watched.facts)
            members = [*members_of(group)]
            described = {
                "group_id": group_id,
                "type": group_type(group),
                "state": group_state(group),
                "generation_id": group.snapshot.generation_id,
                "protocol_name": group.snapshot.protocol_name or None,
            }
        lags = self._lags(group_id, len(group.places)) or []
        furthest = sorted(lags, key=lambda each: (-(each.lag or 0), each.topic, each.partition))
        first_ms = begins_ms or (told[0].started_ms if told else 0)
        since_ms = now_ms - shown_hours * HOUR_MS if shown_hours and begins_ms is None else first_ms
        return {
            **described,
            "now_ms": now_ms,
            "time_zone": time_zones(now_ms),
            "may_write": False,
            **_together(None, lags),
            "storm": next((each.changes for each in reversed(told) if _stands(each, now_ms)), 0),
            "hours": shown_hours,
            "digest": [*digest(group_id, of_explanations(told), since_ms)] if told else [],
            "rebalances": [_happened(each) for each in told[-HISTORY_SHOWN:]],
            "rebalances_left_out": max(0, len(told) - HISTORY_SHOWN),
            "explained_since_ms": begins_ms,
            "rebalance": None,
            "members": members[:MEMBERS_SHOWN],
            "members_left_out": max(0, len(members) - MEMBERS_SHOWN),
            "offsets": [_offset(each) for each in furthest[:OFFSETS_SHOWN]],
            "offsets_left_out": max(0, len(lags) - OFFSETS_SHOWN),
            "cannot_know": [*cannot_know(watched)],
        }

    def _history(self, group_id: str, hours: str, now_ms: int) -> tuple[int, History]:
        """Return what happened in `hours`; without `hours` in the last day, or ever if the day was quiet."""
        if hours.isdecimal() and int(hours) in HOURS:
            return int(hours), self._histories.of(group_id, int(hours), now_ms)
        found = self._histories.of(group_id, HOURS[0], now_ms)
        return (HOURS[0], found) if found.told else (0, self._histories.of(group_id, 0, now_ms))

    def _samples(self, group_id: str) -> Json:
        watched = self._watched
        watched.samples_wanted(group_id)
        with watched.lock:
            samples = [*watched.samples.of(group_id)]
        return {"kind": "group", "name": group_id, "interval_ms": INTERVAL_MS, "samples": samples}

    # The cluster

    def cluster(self) -> Json:
        """Return the brokers, the partitions with a problem, and the observer's state."""
        watched = self._watched
        with watched.lock:
            counts = watched.counts
            standing = [each._asdict() for each in watched.transactions.standing]
        return {
            "cluster_id": watched.status.cluster_id,
            "controller": counts.controller,
            "now_ms": self._now_ms(),
            "cluster": {
                "topics": counts.topics,
                "partitions": counts.partitions,
                "offline": counts.offline,
                "under_replicated": counts.under_replicated,
                "problems": counts.problems,
            },
            "brokers": counts.brokers,
            "open_transactions": standing,
            "observer": self._state(),
            "cannot_know": [*cannot_know(watched)],
            "alerts": self._alerts(),
        }

    def _state(self) -> Json:
        """Return the state of this cluster's observer."""
        status = self._watched.status
        return {
            **msgspec.structs.asdict(status),
            "is_ready": status.is_ready,
            "problem": status.problem,
            "groups": len(self._watched.records.groups),
            "bootstrap": self._observer.bootstrap,
            "version": version("kohort"),
        }


def _together(lag: int | None, lags: Sequence[PlaceLag] | None) -> Json:
    """Return the lag of a group in all partitions; a value is None if no partition has it."""
    if lags is None:
        return {"lag": lag, "lag_seconds": None, "verdict": None}
    known = [each for each in lags if each.lag is not None]
    if not known:
        return {"lag": None if lags else 0, "lag_seconds": None, "verdict": None}
    return {
        "lag": sum(each.lag or 0 for each in known),
        "lag_seconds": max(each.lag_seconds or 0 for each in known),
        "verdict": worst(*(each.verdict for each in known if each.verdict is not None)),
    }


def _offset(lag: PlaceLag) -> Json:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "end_offset": lag.end_offset,
        "lag": lag.lag,
        "lag_seconds": lag.lag_seconds,
        "verdict": lag.verdict,
    }


def _is_storm(told: Explanation) -> bool:
    return any(each.kind is FindingKind.STORM for each in told.findings)


def _stands(told: Explanation, now_ms: int) -> bool:
    """Whether it is a storm that is not over."""
    return now_ms - told.ended_ms <= QUIET_MS and _is_storm(told)


def _happened(told: Explanation) -> Json:
    """Return one thing that happened, for the timeline."""
    first = told.findings[0]
    about = [
        each.about for each in told.findings if each.about and each.likelihood is not Likelihood.POSSIBLE
    ]
    return {
        "generation_id": told.generation_id,
        "cause": first.kind.value,
        "likelihood": first.likelihood.value,
        "started_ms": told.started_ms,
        "ended_ms": told.ended_ms,
        "changes": told.changes,
        "members": told.members,
        "moved": told.moved,
        "is_storm": _is_storm(told),
        "about": [*dict.fromkeys(about)],
        "story": [*observed_story(told)],
    }
