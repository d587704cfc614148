"""What the observer answers over HTTP: groups as a broker of ours has them, and why they rebalanced.

Times are in milliseconds since 1970, durations in milliseconds.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from kohort.observe.alerting import Alerting
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.group import ObservedGroup
from kohort.observe.group_json import Json, members_of, offset_of, summary
from kohort.observe.known import Histories, cannot_know
from kohort.observe.live import LiveViews, NoGroup
from kohort.observe.metrics import CONTENT_TYPE, metrics_page
from kohort.observe.observer import Observer
from kohort.observe.store import NEVER, StoreError
from kohort.protocol.verdict import worst

JSON = "application/json"
GROUP_PREFIX = "/api/v1/groups/"
LIVE_PREFIX = "/api/v1/live/"
MS_DIGITS_MAX = 15
SINCE, UNTIL = TIMES = ("since_ms", "until_ms")
PATHS = {
    "/": "in a browser, the live page",
    "/metrics": "metrics for Prometheus",
    "/health/live": "200 while the process runs",
    "/health/ready": "200 once all records of __consumer_offsets are read, else 503",
    "/api/v1/cluster": "the cluster, and how the observer is",
    "/api/v1/alerts": "what is the matter now, of that which --webhook tells",
    "/api/v1/groups": "every group in short",
    "/api/v1/groups/GROUP": "one group: members, offsets, lag, and why it rebalanced (?since_ms=&until_ms=)",
}


def wall_ms() -> int:
    """Return the time."""
    return time.time_ns() // 1_000_000


class Answer(NamedTuple):
    """An answer: its status, its content type and its body."""

    status: int
    content_type: str
    body: bytes


class Pages:
    """Answers paths of one cluster. Any thread may call it."""

    def __init__(
        self,
        observer: Observer,
        now_ms: Callable[[], int] = wall_ms,
        alerting: Alerting | None = None,
    ) -> None:
        self._observer = observer
        self._alerting = alerting
        self._watched = observer.watched
        self._now_ms = now_ms
        self._histories = Histories(observer)
        self._views = LiveViews(observer, now_ms, self._histories, alerting)

    def page(self, target: str) -> Answer:
        """Return the answer for a path with its query."""
        path = urlsplit(target).path
        fixed: dict[str, Callable[[], Answer]] = {
            "/": lambda: answer_json({"kohort": "observe", "paths": PATHS}),
            "/metrics": lambda: prometheus_page([self._observer], self._now_ms(), self._alerting),
            "/health/live": lambda: answer_json({"status": "live"}),
            "/health/ready": lambda: ready_page([self._observer]),
            "/api/v1/cluster": self._cluster,
            "/api/v1/groups": lambda: answer_json(self.groups()),
            "/api/v1/alerts": lambda: alerts_page(self._alerting, self._observer.name),
        }
        if path in fixed:
            return fixed[path]()
        if path.startswith(LIVE_PREFIX):
            return self._live(path.removeprefix(LIVE_PREFIX), urlsplit(target).query)
        if path.startswith(GROUP_PREFIX):
            return self._group(unquote(path.removeprefix(GROUP_PREFIX)), urlsplit(target).query)
        return answer_json({"error": f"there is no page {path}"}, 404)

    def _live(self, name: str, query: str) -> Answer:
        """Return a view of the live page."""
        parameters = {key: values[-1] for key, values in parse_qs(query).items()}
        try:
            found = self._views.view(name, parameters)
        except NoGroup as error:
            return answer_json({"error": str(error)}, 404)
        except StoreError as error:
            return answer_json({"error": str(error)}, 503)
        if found is None:
            return answer_json({"error": f"there is no view {name}"}, 404)
        return answer_json(found)

    def _cluster(self) -> Answer:
        status, facts = self._watched.status, self._watched.facts
        return answer_json(
            {
                **msgspec.structs.asdict(status),
                "problem": status.problem,
                "groups": len(self._watched.records.groups),
                "offsets_retention_ms": facts.offsets_retention_ms,
                "session_timeout_ms": facts.session_timeout_ms,
                "open_transactions": [each._asdict() for each in self._watched.transactions.standing],
                "cannot_know": [*cannot_know(self._watched)],
            }
        )

    def groups(self) -> list[Json]:
        """Return every group in short."""
        with self._watched.lock:
            return [summary(each) for each in self._watched.records.groups.values()]

    def _group(self, group_id: str, query: str) -> Answer:
        watched, now_ms = self._watched, self._now_ms()
        given = {name: values[-1] for name, values in parse_qs(query).items() if name in TIMES}
        for name, text in given.items():
            if not text.isdecimal() or len(text) > MS_DIGITS_MAX:
                return answer_json({"error": f"{name}={text} is no time in milliseconds"}, 400)
        try:
            if given:
                since_ms, until_ms = int(given.get(SINCE, 0)), int(given.get(UNTIL, NEVER))
                observed, begins_ms = self._histories.between(group_id, since_ms, until_ms)
            else:
                observed, begins_ms = self._histories.of(group_id, 0, now_ms)
        except StoreError as error:
            return answer_json({"error": str(error)}, 503)
        with watched.lock:
            group = watched.records.groups.get(group_id)
            if group is None and not observed:
                if not watched.status.is_caught_up:
                    return answer_json(
                        {"error": "the observer is still reading __consumer_offsets: try again"}, 503
                    )
                return answer_json({"error": f"there is no group {group_id}"}, 404)
            group = group or ObservedGroup(group_id, watched.facts)
            lag = [watched.lags.lag_of(group_id, each, now_ms) for _, each in sorted(group.places.items())]
            described = {**summary(group), "members": [*members_of(group)]}
        return answer_json(
            {
                **described,
                "verdict": worst(*(each.verdict for each in lag if each.verdict is not None)),
                "lag": sum(each.lag or 0 for each in lag),
                "lag_seconds": max((each.lag_seconds or 0 for each in lag), default=0),
                "offsets": [offset_of(each) for each in lag],
                "observed": observed,
                "explained_since_ms": begins_ms,
                "cannot_know": [*cannot_know(watched)],
            }
        )


def prometheus_page(observers: Sequence[Observer], now_ms: int, alerting: Alerting | None) -> Answer:
    """Return the metrics."""
    senders = () if alerting is None else alerting.senders
    return Answer(200, CONTENT_TYPE, metrics_page(observers, now_ms, senders))


def alerts_page(alerting: Alerting | None, cluster: str | None = None) -> Answer:
    """Return the alerts that stand, of one cluster or of all."""
    active = [] if alerting is None else alerting.active(cluster)
    return answer_json([each._asdict() for each in active])


def ready_page(observers: Sequence[Observer]) -> Answer:
    """Return 200 where all that is known is up to date, else 503 with the reasons."""
    reasons = []
    for each in observers:
        status = each.watched.status
        if not status.is_ready:
            reason = status.problem or f"{status.behind} records of {GROUPS_TOPIC} are not read yet"
            reasons.append(f"{each.name}: {reason}" if each.name else reason)
    if not reasons:
        return answer_json({"status": "ready"})
    return answer_json({"status": "not ready", "reasons": reasons}, 503)


def answer_json(content: object, status: int = 200) -> Answer:
    """Return an answer with this content."""
    return Answer(status, JSON, msgspec.json.encode(content))
