"""Asks the cluster, at a bounded pace: topics, leaders, ends of logs, settings, and groups where it must."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar
from uuid import UUID

from kohort.client import (
    LATEST,
    Admin,
    ConfigEntry,
    GroupDescription,
    ItemsError,
    KohortError,
    OffsetAndMetadata,
    ResourceType,
    TopicPartition,
    UnsupportedVersionError,
)
from kohort.client.admin_values import ClusterDescription, ShareGroupOffset
from kohort.observe.brokers import ClusterCounts, counted
from kohort.observe.facts import Facts
from kohort.observe.kinds import SHARE
from kohort.observe.pace import Pace
from kohort.observe.topics import ClusterLook, with_known
from kohort.observe.transactions import Opened
from kohort.protocol.errors import ErrorCode

T = TypeVar("T")

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
RETENTION, SESSION = "offsets.retention.minutes", "group.consumer.session.timeout.ms"
SHARE_SESSION, STREAMS_SESSION = "group.share.session.timeout.ms", "group.streams.session.timeout.ms"
TRANSACTION = "transaction.max.timeout.ms"
_SETTINGS = (RETENTION, SESSION, SHARE_SESSION, STREAMS_SESSION, TRANSACTION)
MINUTE_MS = 60_000
DESCRIBED_AT_ONCE = 100
OFFSETS_AT_ONCE = 5_000
DEAD = "Dead"
NOWHERE = -1
REASON_LENGTH_MAX = 500
DIGITS_MAX = 18
BROKERS_ASKED_MAX = 3
"""At most so many brokers are asked for settings: without the right to them, every broker refuses."""

Places = Iterable[tuple[str, int]]


class Seen(NamedTuple):
    """What one look at the cluster has shown; `leaders` has the broker of each partition."""

    look: ClusterLook
    leaders: dict[tuple[str, int], int]
    topic_names: dict[UUID, str]
    counts: ClusterCounts = ClusterCounts()


class Described(NamedTuple):
    """Groups as they were at `at_ms`, and the ids of groups that are gone."""

    at_ms: int
    groups: tuple[GroupDescription, ...]
    gone: tuple[str, ...]


class ClusterQuestions:
    """The questions to one cluster. What is refused, or fails, is remembered in `refused`."""

    def __init__(self, admin: Admin, pace: Pace, now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._pace = pace
        self._now_ms = now_ms
        self._brokers_count = 1
        self.refused: dict[str, str] = {}

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty where it does not say. Raises: KohortError."""
        described = self._described()
        return "" if described is None else described.cluster_id

    def look(self, before: ClusterLook) -> Seen:
        """Return topics, brokers and leaders as of now; `before`: the look before. Raises: KohortError.

        Topics that are not listed any more are asked for by name: they may as well be hidden from now on.
        """
        self._pace.wait()
        listed = self._admin.list_topics(include_internal=True)
        names = tuple(dict.fromkeys((*listed, *before.partition_counts)))
        self._pace.wait()
        found, failed = _answers(partial(self._admin.describe_topics, *names)) if names else ({}, {})
        unanswered = [
            name for name, error in failed.items() if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        described = self._described()
        nodes = () if described is None else described.nodes
        brokers = {each.node_id for each in nodes}
        if not brokers:
            replicas = (each.replicas for topic in found.values() for each in topic.partitions)
            brokers = {node_id for each in replicas for node_id in each}
        self._brokers_count = max(len(brokers), 1)
        leaders = {
            (name, each.partition): each.leader for name, topic in found.items() for each in topic.partitions
        }
        coordinators = {place[1]: leader for place, leader in leaders.items() if place[0] == GROUPS_TOPIC}
        counts = {name: len(each.partitions) for name, each in found.items()}
        ids = {each.topic_id: name for name, each in found.items() if each.topic_id.int}
        told = {name: topic_id.hex for topic_id, name in ids.items()}
        look = ClusterLook(self._now_ms(), counts, coordinators, sorted(brokers), told)
        controller = NOWHERE if described is None else described.controller_id
        return Seen(
            with_known(look, before, unanswered), leaders, ids, counted(found, nodes, controller, brokers)
        )

    def _described(self) -> ClusterDescription | None:
        """Return the cluster's id, brokers and controller; None where it does not say: before Kafka 2.8."""
        self._pace.wait()
        try:
            return self._admin.describe_cluster()
        except UnsupportedVersionError:
            return None

    def ends(
        self, places: Places, leaders: Mapping[tuple[str, int], int], *, committed_only: bool = False
    ) -> dict[str, dict[int, int]]:
        """Return the end of each of these logs, by topic, as far as it may be known.

        With `committed_only`: the last stable offset.
        Each broker is asked for what it leads: one that does not answer hides its own partitions alone.
        """
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in places:
            leader = leaders.get(place, NOWHERE)
            if leader != NOWHERE:
                by_leader.setdefault(leader, []).append(TopicPartition(*place))
        found: dict[str, dict[int, int]] = {}
        for leader, wanted in sorted(by_leader.items()):
            for begin in range(0, len(wanted), OFFSETS_AT_ONCE):
                self._pace.wait()
                some = dict.fromkeys(wanted[begin : begin + OFFSETS_AT_ONCE], LATEST)
                ask = partial(self._admin.list_offsets, some, committed_only=committed_only)
                answer = self._allowed(f"ListOffsets of broker {leader}", ask)
                for where, value in (answer or {}).items():
                    found.setdefault(where.topic, {})[where.partition] = value.offset
        return found

    def settings(self, node_ids: Iterable[int], facts: Facts) -> None:
        """Put the settings that rules go by to `facts`: those of the first broker that answers."""
        for node_id in islice(node_ids, BROKERS_ASKED_MAX):
            self._pace.wait()
            ask = partial(self._admin.describe_configs, ResourceType.BROKER, str(node_id))
            entries: dict[str, ConfigEntry] | None = self._allowed("DescribeConfigs", ask)
            if not entries:
                continue
            values = {name: _number(entries[name]) for name in _SETTINGS if name in entries}
            facts.offsets_retention_ms = values.get(RETENTION, 0) * MINUTE_MS or facts.offsets_retention_ms
            facts.session_timeout_ms = values.get(SESSION, 0) or facts.session_timeout_ms
            facts.share_session_timeout_ms = values.get(SHARE_SESSION, 0) or facts.share_session_timeout_ms
            facts.streams_session_timeout_ms = (
                values.get(STREAMS_SESSION, 0) or facts.streams_session_timeout_ms
            )
            facts.transaction_timeout_ms_max = values.get(TRANSACTION, 0) or facts.transaction_timeout_ms_max
            return

    def group_session_timeout_ms(self, group_id: str, kind: str) -> int | None:
        """Return the session timeout of a group with epochs, None where that may not be known."""
        self._pace.wait()
        ask = partial(self._admin.describe_configs, ResourceType.GROUP, group_id)
        entries: dict[str, ConfigEntry] | None = self._allowed("DescribeConfigs of groups", ask)
        name = f"{kind}.session.timeout.ms"
        if entries is None or name not in entries:
            return None
        return _number(entries[name])

    def groups(self, known: Iterable[str]) -> Iterator[Described]:
        """Yield the listed groups and the `known` ones, some at a time. Raises: KohortError.

        A group is gone only where its coordinator says so: one that moves is not listed for a moment.
        """
        self._pace.wait(self._brokers_count)
        listed = self._admin.list_groups()
        shared = {each.group_id for each in listed if each.type.lower() == SHARE}
        ids = [
            each
            for each in dict.fromkeys((*(each.group_id for each in listed), *known))
            if each not in shared
        ]
        for begin in range(0, len(ids), DESCRIBED_AT_ONCE):
            self._pace.wait(self._brokers_count + 1)
            some = ids[begin : begin + DESCRIBED_AT_ONCE]
            found, failed = _answers(partial(self._admin.describe_groups, *some))
            gone = [name for name, each in failed.items() if each.code is ErrorCode.GROUP_ID_NOT_FOUND]
            gone += [name for name, each in found.items() if each.state == DEAD]
            kept = tuple(each for each in found.values() if each.state != DEAD)
            yield Described(self._now_ms(), kept, tuple(gone))

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """Return what a group has committed, None where that may not be known."""
        self._pace.wait()
        return self._allowed("OffsetFetch", partial(self._admin.list_group_offsets, group_id))

    def open_transactions(self, leaders: Mapping[tuple[str, int], int]) -> Opened | None:
        """Return the transactions that are open now, None where that may not be known.

        `leaders`: of each partition before. Nobody asks a coordinator that moves while others are asked.
        """
        before = {each[1]: leader for each, leader in leaders.items() if each[0] == TRANSACTIONS_TOPIC}
        self._pace.wait(2 * self._brokers_count)
        found = self._allowed("ListTransactions", self._admin.open_transactions)
        if found is None:
            return None
        self._pace.wait()
        ask = partial(self._admin.describe_topics, TRANSACTIONS_TOPIC)
        told = (self._allowed("the coordinators of transactions", ask) or {}).get(TRANSACTIONS_TOPIC)
        after = {each.partition: each.leader for each in told.partitions} if told is not None else {}
        is_whole = before == after and NOWHERE not in after.values() and bool(after)
        return Opened(found, is_whole)

    def share_offsets(self, group_id: str) -> dict[TopicPartition, ShareGroupOffset] | None:
        """Return where a share group begins in each partition, None where that may not be known."""
        self._pace.wait()
        ask = partial(self._admin.list_share_group_offsets, group_id)
        return self._allowed("DescribeShareGroupOffsets", ask)

    def _allowed(self, name: str, ask: Callable[[], T]) -> T | None:
        """Return the answer, None where it is refused or fails; the reason is remembered."""
        try:
            answer = ask()
        except KohortError as error:
            self.refused[name] = str(error)[:REASON_LENGTH_MAX]
            return None
        self.refused.pop(name, None)
        return answer


def _number(entry: ConfigEntry) -> int:
    """Return a setting that is a number; 0 for one that is hidden, or that a service has in its own form."""
    text = (entry.value or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else 0


def _answers(ask: Callable[[], dict[str, T]]) -> tuple[dict[str, T], dict[str, KohortError]]:
    """Return the answers about those things that may be known, and the errors of the others."""
    try:
        return ask(), {}
    except ItemsError as error:
        found: dict[str, T] = {str(each): result for each, result in error.results.items()}  # type: ignore[misc]  # They are of the call's kind.
        return found, {str(each): failure for each, failure in error.errors.items()}
