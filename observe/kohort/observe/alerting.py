"""Looks at what observers have stored, again and again, and has alerts sent. A thread of its own."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from threading import Event, Thread

from kohort.broker.explain.observed.explaining import explain
from kohort.observe.alerts import (
    FLAPS_MS,
    QUIET_MS,
    Alert,
    Alerts,
    Finding,
    Standing,
    flapping_findings,
    storm_findings,
)
from kohort.observe.observer import Observer
from kohort.observe.store import Store, StoreError
from kohort.observe.webhooks import Sender, Webhook

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
EVENTS_MAX = 200


class ClusterAlerts:
    """The alerts of one cluster."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._standing = Standing()
        self._newest: dict[str, tuple[int, tuple[Finding, ...]]] = {}
        """Of each group the number of its newest event, and what was found then."""
        self.alerts = Alerts(observer.name)

    def look(self, now_ms: int) -> list[Alert]:
        """Return the alerts that begin or end. Raises: StoreError."""
        watched = self._observer.watched
        if not watched.status.is_caught_up:
            return []  # What is read of the past is no news.
        return self.alerts.update([*self._from_events(now_ms), *self._from_lags(now_ms)], now_ms)

    def _from_events(self, now_ms: int) -> Iterator[Finding]:
        cluster_id = self._observer.watched.status.cluster_id
        with closing(Store(self._observer.store_path)) as store:
            changed = store.changed_since(cluster_id, now_ms - QUIET_MS)
            self._newest = {each: known for each, known in self._newest.items() if each in changed}
            for group_id, number in changed.items():
                if self._newest.get(group_id, (0, ()))[0] != number:
                    self._newest[group_id] = number, self._group_findings(store, group_id, now_ms)
                yield from self._newest[group_id][1]

    def _group_findings(self, store: Store, group_id: str, now_ms: int) -> tuple[Finding, ...]:
        cluster_id = self._observer.watched.status.cluster_id
        events = store.events(cluster_id, group_id, since_ms=now_ms - 2 * FLAPS_MS, most=EVENTS_MAX)
        return (
            *storm_findings(group_id, explain(events), now_ms),
            *flapping_findings(group_id, events, now_ms),
        )

    def _from_lags(self, now_ms: int) -> Iterator[Finding]:
        watched = self._observer.watched
        with watched.lock:
            group_ids = [each for each, group in watched.records.groups.items() if group.snapshot.members]
        self._standing.forget(set(group_ids).__contains__)
        for group_id in group_ids:
            with watched.lock:  # Each for a moment: a reader waits for this.
                group = watched.records.groups.get(group_id)
                places = [] if group is None else [*group.places.values()]
                lags = [watched.lags.lag_of(group_id, each, now_ms) for each in places]
            yield from self._standing.findings(group_id, lags, now_ms)


class Alerting:
    """Sends the alerts of all clusters to all endpoints until `stop`."""

    def __init__(
        self,
        observers: Sequence[Observer],
        webhooks: Sequence[Webhook],
        now_ms: Callable[[], int],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._clusters = [ClusterAlerts(each) for each in observers]
        self.senders = [Sender(each) for each in webhooks]
        self._now_ms = now_ms
        self._look_seconds = look_seconds
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="kohort-alerts", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, without sending what still waits."""
        self._stopping.set()
        self._thread.join()
        for each in self.senders:
            each.close()

    def look(self) -> None:
        """Look at each cluster once."""
        now_ms = self._now_ms()
        changed: list[Alert] = []
        for each in self._clusters:
            try:
                changed += each.look(now_ms)
            except (StoreError, OSError) as error:
                log.warning("no look for alerts: %s", error)
            except Exception:  # A supervisor: a fault with one cluster does not end the alerts of the others.
                log.exception("no look for alerts")
        standing = self.active()
        for sender in self.senders:
            sender.send(changed, standing, now_ms)

    def active(self, cluster: str | None = None) -> list[Alert]:
        """Return the alerts that stand, of one cluster or of all."""
        every = (alert for each in self._clusters for alert in each.alerts.active)
        return [each for each in every if cluster in {None, each.cluster}]

    def _run(self) -> None:
        while not self._stopping.wait(self._look_seconds):
            self.look()
