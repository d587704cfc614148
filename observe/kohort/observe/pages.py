"""What the observer answers over HTTP: groups as a broker of ours has them, and why they rebalanced.

Times are in milliseconds since 1970, durations in milliseconds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.explaining import LOOK_BACK_MS, explain
from kohort.observe.alerting import Alerting
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.group import ObservedGroup
from kohort.observe.lags import PlaceLag
from kohort.observe.metrics import CONTENT_TYPE, metrics_page
from kohort.observe.observer import Observer
from kohort.observe.store import Store, StoreError
from kohort.protocol.verdict import worst

JSON = "application/json"
GROUP_PREFIX = "/api/v1/groups/"
EVENTS_MAX = 2_000
SINCE_EVENTS_MAX = 50_000
MS_DIGITS_MAX = 15
PATHS = {
    "/metrics": "metrics for Prometheus",
    "/health/live": "200 while the process runs",
    "/health/ready": "200 once all records of __consumer_offsets are read, else 503",
    "/api/v1/cluster": "the cluster, and how the observer is",
    "/api/v1/alerts": "what is the matter now, of that which --webhook tells",
    "/api/v1/groups": "every group in short",
    "/api/v1/groups/GROUP": "one group: members, offsets, lag, and why it rebalanced (?since_ms= for all)",
}

Json = dict[str, object]


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
            "/api/v1/alerts": lambda: alerts_page(self._alerting),
        }
        if path in fixed:
            return fixed[path]()
        if path.startswith(GROUP_PREFIX):
            return self._group(unquote(path.removeprefix(GROUP_PREFIX)), urlsplit(target).query)
        return answer_json({"error": f"there is no page {path}"}, 404)

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
                "cannot_know": list(self.unknown()),
            }
        )

    def unknown(self) -> Iterator[str]:
        """Yield what cannot be known for lack of rights, and what follows from that."""
        status = self._watched.status
        if not status.reads_records:
            yield (
                f"{GROUPS_TOPIC} may not be read: groups are looked at now and then. What happens "
                "between two looks, timeouts, subscriptions of classic members, expired and deleted offsets "
                "are not known."
            )
        for name, reason in sorted(status.refused.items()):
            yield f"{name} was refused: {reason}"

    def groups(self) -> list[Json]:
        """Return every group in short."""
        with self._watched.lock:
            return [_summary(each) for each in self._watched.records.groups.values()]

    def _group(self, group_id: str, query: str) -> Answer:
        watched, now_ms = self._watched, self._now_ms()
        since = parse_qs(query).get("since_ms", ["0"])[-1]
        if not since.isdecimal() or len(since) > MS_DIGITS_MAX:
            return answer_json({"error": f"since_ms={since} is no time in milliseconds"}, 400)
        try:
            observed = self._explanations(group_id, int(since))
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
            described = {**_summary(group), "members": [*_members(group)]}
        return answer_json(
            {
                **described,
                "verdict": worst(*(each.verdict for each in lag if each.verdict is not None)),
                "lag": sum(each.lag or 0 for each in lag),
                "lag_seconds": max((each.lag_seconds or 0 for each in lag), default=0),
                "offsets": [_offset(each) for each in lag],
                "observed": observed,
                "cannot_know": list(self.unknown()),
            }
        )

    def _explanations(self, group_id: str, since_ms: int) -> list[Explanation]:
        """Return what is stored of a group, explained; what was seen a moment ago may not be stored yet."""
        most = SINCE_EVENTS_MAX if since_ms else EVENTS_MAX
        from_ms = max(since_ms - LOOK_BACK_MS, 0)
        cluster_id = self._watched.status.cluster_id
        store = Store(self._observer.store_path)
        try:
            events = store.events(cluster_id, group_id, since_ms=from_ms, most=most)
        finally:
            store.close()
        return [each for each in explain(events) if each.ended_ms >= since_ms]


def prometheus_page(observers: Sequence[Observer], now_ms: int, alerting: Alerting | None) -> Answer:
    """Return the metrics."""
    senders = () if alerting is None else alerting.senders
    return Answer(200, CONTENT_TYPE, metrics_page(observers, now_ms, senders))


def alerts_page(alerting: Alerting | None) -> Answer:
    """Return the alerts that stand."""
    return answer_json([] if alerting is None else [each._asdict() for each in alerting.active()])


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


def _summary(group: ObservedGroup) -> Json:
    snapshot = group.snapshot
    return {
        "group_id": group.group_id,
        "state": "Stable" if snapshot.members else "Empty",
        "protocol_type": group.kind,
        "type": group.kind if group.is_by_broker else "classic",
        "protocol_name": snapshot.protocol_name,
        "generation_id": snapshot.generation_id,
        "member_count": len(snapshot.members),
        "state_since_ms": snapshot.at_ms,
    }


def _members(group: ObservedGroup) -> Iterator[Json]:
    owned = group.snapshot.owned()
    for member_id, member in group.snapshot.members.items():
        activity = group.activities.get(member_id)
        yield {
            "member_id": member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topics": member.topics or (member.topic_regex,),
            "partitions": owned.get(member_id, []),
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "last_commit_ms": None if activity is None else activity.last_commit_ms or None,
        }


def _offset(lag: PlaceLag) -> Json:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "commit_timestamp_ms": lag.commit_timestamp_ms,
        "high_watermark": lag.end_offset,
        "lag": lag.lag,
        "lag_seconds": lag.lag_seconds,
        "verdict": lag.verdict,
    }


def answer_json(content: object, status: int = 200) -> Answer:
    """Return an answer with this content."""
    return Answer(status, JSON, msgspec.json.encode(content))
