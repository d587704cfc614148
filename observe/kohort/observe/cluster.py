"""Asks the cluster, at a bounded pace: topics, leaders, ends of logs, settings, and groups where it must."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from threading import Event
from typing import TypeVar

from kohort.client import (
    LATEST,
    Admin,
    BrokerError,
    ConfigEntry,
    GroupDescription,
    ItemsError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    ResourceType,
    TopicPartition,
    UnsupportedVersionError,
)
from kohort.observe.facts import Facts
from kohort.observe.topics import ClusterLook

T = TypeVar("T")

GROUPS_TOPIC = "__consumer_offsets"
RETENTION, SESSION = "offsets.retention.minutes", "group.consumer.session.timeout.ms"
MINUTE_MS = 60_000
DESCRIBED_AT_ONCE = 100
OFFSETS_AT_ONCE = 5_000


class Pace:
    """Lets a call begin only so often; waiting ends at once when the observer stops."""

    def __init__(self, calls_per_second: float, stopping: Event) -> None:
        self._gap_seconds = 1 / calls_per_second
        self._stopping = stopping
        self._next = 0.0
        self.calls = 0

    def wait(self) -> None:
        """Return when the next call may begin."""
        now = time.monotonic()
        if now < self._next:
            self._stopping.wait(self._next - now)
        self._next = max(now, self._next) + self._gap_seconds
        self.calls += 1


class ClusterQuestions:
    """The questions to one cluster. What is refused for lack of rights is remembered in `refused`."""

    def __init__(self, admin: Admin, pace: Pace, now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._pace = pace
        self._now_ms = now_ms
        self.refused: dict[str, str] = {}

    def cluster_id(self) -> str:
        """Return the id of the cluster. Raises: KohortError."""
        self._pace.wait()
        try:
            return self._admin.describe_cluster().cluster_id
        except UnsupportedVersionError:  # Before Kafka 2.8.
            return ""

    def look(self, facts: Facts) -> ClusterLook:
        """Return topics, brokers and leaders as of now; topic ids go to `facts`. Raises: KohortError."""
        self._pace.wait()
        names = self._admin.list_topics(include_internal=True)
        self._pace.wait()
        found = _of_those(partial(self._admin.describe_topics, *names)) if names else {}
        facts.topic_names = {**facts.topic_names, **{each.topic_id: name for name, each in found.items()}}
        brokers = self._brokers()
        if not brokers:
            replicas = (each.replicas for topic in found.values() for each in topic.partitions)
            brokers = {node_id for each in replicas for node_id in each}
        coordinators: dict[int, int] = {}
        if GROUPS_TOPIC in found:
            partitions = found[GROUPS_TOPIC].partitions
            coordinators = {each.partition: each.leader for each in partitions}
        counts = {name: len(each.partitions) for name, each in found.items()}
        return ClusterLook(self._now_ms(), counts, coordinators, sorted(brokers))

    def _brokers(self) -> set[int]:
        """Return the brokers; none where the cluster does not say, as before Kafka 2.8."""
        self._pace.wait()
        try:
            return {each.node_id for each in self._admin.describe_cluster().nodes}
        except UnsupportedVersionError:
            return set()

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, int]]:
        """Return the end of each of these logs, by topic, as far as it may be known."""
        wanted = [TopicPartition(*each) for each in places]
        found: dict[str, dict[int, int]] = {}
        for begin in range(0, len(wanted), OFFSETS_AT_ONCE):
            self._pace.wait()
            some = dict.fromkeys(wanted[begin : begin + OFFSETS_AT_ONCE], LATEST)
            nothing: dict[TopicPartition, OffsetAndTimestamp] = {}
            answer = self._allowed("ListOffsets", partial(self._admin.list_offsets, some), nothing)
            for where, value in answer.items():
                found.setdefault(where.topic, {})[where.partition] = value.offset
        return found

    def settings(self, node_ids: Iterable[int], facts: Facts) -> None:
        """Put the settings that rules go by to `facts`: those of the first broker that answers."""
        for node_id in node_ids:
            self._pace.wait()
            ask = partial(self._admin.describe_configs, ResourceType.BROKER, str(node_id))
            entries: dict[str, ConfigEntry] = self._allowed("DescribeConfigs", ask, {})
            if not entries:
                continue
            retention, session = entries.get(RETENTION), entries.get(SESSION)
            if retention is not None and retention.value:
                facts.offsets_retention_ms = int(retention.value) * MINUTE_MS
            if session is not None and session.value:
                facts.session_timeout_ms = int(session.value)
            return

    def groups(self) -> list[GroupDescription]:
        """Return every group that may be described, with its members. Raises: KohortError."""
        self._pace.wait()
        ids = [each.group_id for each in self._admin.list_groups() if each.type.lower() != "share"]
        found: list[GroupDescription] = []
        for begin in range(0, len(ids), DESCRIBED_AT_ONCE):
            self._pace.wait()
            some = ids[begin : begin + DESCRIBED_AT_ONCE]
            found += _of_those(partial(self._admin.describe_groups, *some)).values()
        return found

    def committed(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return what these groups have committed, as far as it may be known."""
        found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for group_id in group_ids:
            self._pace.wait()
            ask = partial(self._admin.list_group_offsets, group_id)
            nothing: dict[TopicPartition, OffsetAndMetadata] = {}
            found[group_id] = self._allowed("OffsetFetch", ask, nothing)
        return found

    def _allowed(self, name: str, ask: Callable[[], T], otherwise: T) -> T:
        """Return the answer, or `otherwise` where it is refused or fails; the reason is remembered."""
        try:
            answer = ask()
        except ItemsError as error:
            self.refused[name] = str(error)[:500]
            results: T = error.results or otherwise  # type: ignore[assignment]  # They are of the call's kind.
            return results
        except BrokerError as error:
            self.refused[name] = str(error)[:500]
            return otherwise
        self.refused.pop(name, None)
        return answer


def _of_those(ask: Callable[[], dict[str, T]]) -> dict[str, T]:
    """Return the answers about those things that may be known."""
    try:
        return ask()
    except ItemsError as error:
        return dict(error.results)  # type: ignore[arg-type]  # They are of the call's kind.
