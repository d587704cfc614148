"""What an observer knows of a group's history, and what it cannot know."""

from collections.abc import Iterator
from contextlib import closing
from threading import Lock
from typing import NamedTuple

from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.events import AnyObserved
from kohort.broker.explain.observed.explaining import LOOK_BACK_MS, explain
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.observer import Observer
from kohort.observe.store import CLUSTER_WIDE, Store
from kohort.observe.watched import Watched

EVENTS_MAX = 2_000
SINCE_EVENTS_MAX = 50_000
HISTORIES_KEPT = 16
HOUR_MS = 3_600_000


def explanations(
    observer: Observer, group_id: str, since_ms: int = 0, most: int = EVENTS_MAX
) -> list[Explanation]:
    """Return the explanations of a group's stored events; the newest events may not be stored yet.

    Without `since_ms` the newest `most` events are explained. Raises: StoreError.
    """
    events = _events(observer, group_id, since_ms, SINCE_EVENTS_MAX if since_ms else most)
    return [each for each in explain(events) if each.ended_ms >= since_ms]


def _events(observer: Observer, group_id: str, since_ms: int, most: int) -> list[AnyObserved]:
    """Return the newest stored events of a group that explain what happened since a time."""
    from_ms = max(since_ms - LOOK_BACK_MS, 0)
    with closing(Store(observer.store_path)) as store:
        return store.events(observer.watched.status.cluster_id, group_id, since_ms=from_ms, most=most)


class History(NamedTuple):
    """The explanations of a group's events. Those before `begins_ms` are not explained; None: all are."""

    told: list[Explanation]
    begins_ms: int | None


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
                found = _Explained(numbers, self._explain(group_id, since_ms))
            self._explained[group_id, hours] = found
            if len(self._explained) > HISTORIES_KEPT:
                del self._explained[next(iter(self._explained))]
        told, begins_ms = found.history
        is_all = begins_ms is None or begins_ms <= since_ms
        return History([each for each in told if each.ended_ms >= since_ms], None if is_all else begins_ms)

    def _numbers(self, group_id: str) -> tuple[int, int]:
        cluster_id = self._observer.watched.status.cluster_id
        with closing(Store(self._observer.store_path)) as store:
            return store.newest_of(cluster_id, group_id), store.newest_of(cluster_id, CLUSTER_WIDE)

    def _explain(self, group_id: str, since_ms: int) -> History:
        events = _events(self._observer, group_id, since_ms, EVENTS_MAX + 1)
        explained = events[-EVENTS_MAX:]
        return History(explain(explained), explained[0].at_ms if len(events) > EVENTS_MAX else None)


def cannot_know(watched: Watched) -> Iterator[str]:
    """Yield what cannot be known for lack of rights, and what follows from that."""
    status = watched.status
    if not status.reads_records:
        yield (
            f"{GROUPS_TOPIC} may not be read: groups are looked at now and then. What happens "
            "between two looks, timeouts, subscriptions of classic members, expired and deleted offsets "
            "are not known."
        )
    for name, reason in sorted(status.refused.items()):
        yield f"{name} was refused: {reason}"
