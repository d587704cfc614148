"""What an observer knows of a group's history, and what it cannot know."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from threading import Lock
from typing import NamedTuple

from kohort.broker.explain.findings import Explanation, FindingKind
from kohort.broker.explain.observed.events import AnyObserved, TopicsChanged
from kohort.broker.explain.observed.explaining import LOOK_AHEAD_MS, LOOK_BACK_MS, explain
from kohort.broker.explain.words import duration
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.observer import Observer
from kohort.observe.store import CLUSTER_WIDE, NEVER, Store
from kohort.observe.watched import HOUR_MS, Watched

EVENTS_MAX = 2_000
"""The number of a group's events that are explained at once: some 0.2 s of CPU."""
HISTORIES_KEPT = 16


class History(NamedTuple):
    """The explanations of a group's events. Those before `begins_ms` are not explained; None: all are."""

    told: list[Explanation]
    begins_ms: int | None


def explained(
    observer: Observer, group_id: str, since_ms: int = 0, until_ms: int = NEVER, most: int = EVENTS_MAX
) -> History:
    """Return what happened to a group in this time, from its `most` newest events before `until_ms`.

    To get the part before it, give its `begins_ms` as `until_ms`. A run of changes is divided between
    two parts only if it has more events than that. The newest events may not be stored yet.

    Raises: StoreError.
    """
    cluster_id = observer.watched.status.cluster_id
    from_ms = max(since_ms - LOOK_BACK_MS, 0)
    with closing(Store(observer.store_path)) as store:
        count = store.count(cluster_id, group_id, since_ms=from_ms, until_ms=until_ms, most=most + 1)
        found = store.events(cluster_id, group_id, since_ms=from_ms, until_ms=until_ms, most=most + 1)
        ahead_ms = until_ms + LOOK_AHEAD_MS
        later = store.events(cluster_id, group_id, since_ms=until_ms, until_ms=ahead_ms, most=most)
    own_ms = [each.at_ms for each in found if not isinstance(each, TopicsChanged)]
    is_all = count <= len(own_ms) <= most
    events = found if is_all else _without_oldest(found, own_ms)
    told = [each for each in explain(_in_order(events, later)) if _placed_ms(each) < until_ms]
    if is_all:
        return History([each for each in told if each.ended_ms >= since_ms], None)
    first_ms = next(each.at_ms for each in events if not isinstance(each, TopicsChanged))
    # Rules look back: the first explanations lack events, and are left to the next part if there are others.
    whole_ms = [at_ms for each in told if (at_ms := _placed_ms(each)) >= first_ms + LOOK_BACK_MS]
    begins_ms = min(whole_ms, default=first_ms)
    told = [each for each in told if _placed_ms(each) >= begins_ms and each.ended_ms >= since_ms]
    return History(told, begins_ms if begins_ms > since_ms else None)


def _without_oldest(events: Sequence[AnyObserved], own_ms: Sequence[int]) -> list[AnyObserved]:
    """Return the events that are later than the oldest one of the group.

    If all of the group's events are of one millisecond, they stay.
    """
    after_ms = own_ms[0] if own_ms[-1] > own_ms[0] else own_ms[0] - 1
    return [each for each in events if each.at_ms > after_ms]


def _in_order(events: Sequence[AnyObserved], later: Sequence[AnyObserved]) -> list[AnyObserved]:
    """Return all of these events, the oldest first.

    A change of topics just after `events` may be in both: there the store returns it with what is before.
    """
    last = events[-1:]
    return sorted([*events, *(each for each in later if each not in last)], key=lambda each: each.at_ms)


def _placed_ms(told: Explanation) -> int:
    """Return the time of the first event of an explanation.

    The event of an open transaction comes when the transaction has stood for long, not when it began.
    """
    return told.ended_ms if told.findings[0].kind is FindingKind.TRANSACTION_HANGS else told.started_ms


class _Explained(NamedTuple):
    numbers: tuple[int, int]
    """The numbers of the newest event of the group and of the whole cluster."""
    history: History


class Histories:
    """The histories of the groups that somebody looks at. Any thread may ask.

    A page asks again and again: a history is explained again only after a new event, and from the newest
    `EVENTS_MAX` events.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._lock = Lock()
        self._explained: dict[tuple[str, int], _Explained] = {}
        """By group and hours, in the order of the last question."""

    def is_known(self, group_id: str) -> bool:
        """Return whether an event of a group is stored. Raises: StoreError."""
        return self._numbers(group_id)[0] > 0

    def of(self, group_id: str, hours: int, now_ms: int) -> History:
        """Return what happened to a group in the last hours, 0 for all that is kept. Raises: StoreError."""
        since_ms = now_ms - hours * HOUR_MS if hours else 0
        with self._lock:
            numbers = self._numbers(group_id)
            found = self._explained.pop((group_id, hours), None)
            if found is None or found.numbers != numbers:
                found = _Explained(numbers, explained(self._observer, group_id, since_ms))
            self._explained[group_id, hours] = found
            if len(self._explained) > HISTORIES_KEPT:
                del self._explained[next(iter(self._explained))]
        told, begins_ms = found.history
        is_all = begins_ms is None or begins_ms <= since_ms
        return History([each for each in told if each.ended_ms >= since_ms], None if is_all else begins_ms)

    def between(self, group_id: str, since_ms: int, until_ms: int) -> History:
        """Return what happened to a group in this time: the newest of it. Raises: StoreError."""
        with self._lock:  # One at a time, whoever asks: the threads that observe come between.
            return explained(self._observer, group_id, since_ms, until_ms)

    def _numbers(self, group_id: str) -> tuple[int, int]:
        cluster_id = self._observer.watched.status.cluster_id
        with closing(Store(self._observer.store_path)) as store:
            return store.newest_of(cluster_id, group_id), store.newest_of(cluster_id, CLUSTER_WIDE)


def cannot_know(watched: Watched) -> Iterator[str]:
    """Yield what cannot be known, for lack of rights or for clocks that differ, and what follows."""
    status = watched.status
    if not status.reads_records:
        yield (
            f"{GROUPS_TOPIC} may not be read: groups are looked at now and then. What happens "
            "between two looks, timeouts, subscriptions of classic members, expired and deleted offsets "
            "are not known."
        )
    ahead_ms = watched.clock.ahead_ms
    if ahead_ms:
        yield (
            f"exact times: the brokers' clocks are {duration(abs(ahead_ms))} "
            f"{'ahead of' if ahead_ms > 0 else 'behind'} the observer's: ages of commits are wrong by that."
        )
    for name, reason in sorted(status.refused.items()):
        yield f"{name} was refused: {reason}"
