"""What an observer knows of a group's history, and what it cannot know."""

from collections.abc import Iterator

from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.explaining import LOOK_BACK_MS, explain
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.observer import Observer
from kohort.observe.store import Store
from kohort.observe.watched import Watched

EVENTS_MAX = 2_000
SINCE_EVENTS_MAX = 50_000


def explanations(
    observer: Observer, group_id: str, since_ms: int = 0, most: int = EVENTS_MAX
) -> list[Explanation]:
    """Return what is stored of a group, explained; what was seen a moment ago may not be stored yet.

    Without a time it is what the newest `most` events tell. Raises: StoreError.
    """
    most = SINCE_EVENTS_MAX if since_ms else most
    from_ms = max(since_ms - LOOK_BACK_MS, 0)
    cluster_id = observer.watched.status.cluster_id
    store = Store(observer.store_path)
    try:
        events = store.events(cluster_id, group_id, since_ms=from_ms, most=most)
    finally:
        store.close()
    return [each for each in explain(events) if each.ended_ms >= since_ms]


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
