"""One cluster as it is watched: what its threads share, and what is stored of it."""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from threading import RLock
from uuid import UUID

import msgspec

from kohort.broker.explain.observed.events import AnyObserved
from kohort.broker.explain.observed.patterns import waits_at
from kohort.client import BrokerError
from kohort.client.batches import FetchedBatch
from kohort.observe.brokers import ClusterCounts
from kohort.observe.clock import BrokerClock
from kohort.observe.cluster import GROUPS_TOPIC, Seen
from kohort.observe.facts import Facts
from kohort.observe.group import ObservedGroup
from kohort.observe.kinds import SHARE
from kohort.observe.lags import Lags
from kohort.observe.records import Records
from kohort.observe.samples import Samples
from kohort.observe.store import CLUSTER_WIDE, GroupNews, Store
from kohort.observe.topics import ClusterLook, coordinators_moved, topics_changed
from kohort.observe.transactions import (
    NONE_SAVED,
    Opened,
    OpenTransactions,
    SavedTransactions,
    Standing,
    standing_event,
)
from kohort.protocol.errors import ErrorCode, WireError

log = logging.getLogger(__name__)

PROGRESS = "progress"
SILENT_MS_MAX = 60_000
HOUR_MS = 3_600_000
TOMBSTONE_HOURS = 24
"""The log cleaner removes tombstones after this time (delete.retention.ms).

Groups and offsets whose tombstones were not read before would stay.
"""
FORMER_NAMES_MAX = 10_000
"""The number of topics that are gone whose names are kept."""


class Status(msgspec.Struct):
    """How the observer of one cluster is, for its pages."""

    cluster_id: str = ""
    reads_records: bool = True
    """False where `__consumer_offsets` may not be read: then groups are described now and then."""
    is_caught_up: bool = False
    looked_ms: int = 0
    calls: int = 0
    """Requests to the cluster without the `fetches`, which read `__consumer_offsets`."""
    fetches: int = 0
    behind: int = 0
    """Records of `__consumer_offsets` that are not read yet."""
    problems: dict[str, str] = {}
    """What does not work at the moment, by what it concerns: reading, asking."""
    refused: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """All problems in one line, empty for none."""
        return "; ".join([*self.problems.values()])

    @property
    def is_ready(self) -> bool:
        """Whether what is known of groups is up to date."""
        return self.is_caught_up and not self.problems

    def note(self, what: str, problem: object = "") -> None:
        """Set or clear the problem of one thing. One thread alone sets the problem of a thing."""
        if problem:
            self.problems[what] = str(problem)
        else:
            self.problems.pop(what, None)


class SavedCluster(msgspec.Struct):
    """What is stored of the cluster, in one transaction with the positions that it rests on."""

    look: ClusterLook
    knows_all_groups: bool
    reads_records: bool
    group_session_timeouts_ms: dict[str, int] = {}
    transactions: SavedTransactions = NONE_SAVED
    told_ms: dict[str, int] = {}
    """While all is read again: of each group the time up to which its events were stored before."""
    ahead_ms: int = 0
    """By how much the brokers' clocks are ahead of this machine's."""


class Watched:
    """What is known of one cluster. All that threads share, they read and change under `lock`."""

    def __init__(self, now_ms: Callable[[], int], interval_seconds: float) -> None:
        self.lock = RLock()
        self.status = Status()
        self.facts = Facts()
        self.records = Records(self.facts)
        self.lags = Lags(int(interval_seconds * 1_000))
        self.look = ClusterLook()
        self.counts = ClusterCounts()
        self.samples = Samples()
        self.transactions = OpenTransactions()
        self.clock = BrokerClock()
        self.leaderless: frozenset[int] = frozenset()
        """Partitions of the groups' topic that had no leader at the last look."""
        self.positions: dict[int, int] = {}
        self.now_ms = now_ms
        self._cluster_news: list[tuple[str, AnyObserved]] = []
        self._told_ms: dict[str, int] = {}
        """While all is read again: the time of each group's newest stored event."""
        self._read = (0, 0)

    # Stored

    def restore(self, store: Store) -> None:
        """Go on from what is stored. Where another kohort wrote that, all is read again."""
        cluster = self.status.cluster_id
        self._cluster_news = []  # Of a start that failed: the next look sees it again.
        try:
            former = store.cluster_state(cluster)
            if former is not None:
                saved = msgspec.msgpack.decode(former, type=SavedCluster)
                self._restore_cluster(saved)
                hours = (self.brokers_now_ms() - saved.look.at_ms) // HOUR_MS if saved.look.at_ms else 0
                if saved.reads_records and hours >= TOMBSTONE_HOURS:
                    log.warning("nobody observed for %s h: %s is read again", hours, GROUPS_TOPIC)
                    self.begin_anew(store)
                    return
            for group_id, state in store.groups(cluster):
                self.records.restore(group_id, state)
        except msgspec.DecodeError:
            log.warning("the groups in the store are of another kohort: %s is read again", GROUPS_TOPIC)
            self.begin_anew(store)
            return
        self.positions = store.positions(cluster)
        if not self.positions:
            self._told_ms = store.newest(cluster)  # All is read again, and nothing of it is stored yet.

    def _restore_cluster(self, saved: SavedCluster) -> None:
        """Go on from what is stored of the cluster itself."""
        self.look, self.facts.knows_all_groups = saved.look, saved.knows_all_groups
        self.status.reads_records = saved.reads_records
        self.transactions = OpenTransactions(saved.transactions)
        self.clock = BrokerClock(saved.ahead_ms)
        self._told_ms = saved.told_ms
        self.facts.group_session_timeouts_ms = saved.group_session_timeouts_ms
        self.facts.topic_names = {UUID(each): name for name, each in saved.look.topic_ids.items()}

    def begin_anew(self, store: Store, *, reads_records: bool = True) -> None:
        """Forget all groups and positions. Events that are stored already are not stored again.

        Raises: StoreError.
        """
        cluster = self.status.cluster_id
        with self.lock:
            store.begin_anew(cluster)
            for group_id in self.records.groups:
                self.lags.forget(group_id)
            self._told_ms = store.newest(cluster)
            self.facts.knows_all_groups = False
            self.records = Records(self.facts)
            self.positions = {}
            self.status.is_caught_up = False
            self.status.reads_records = reads_records

    def save(self, store: Store) -> None:
        """Store what is new. Raises: StoreError."""
        with self.lock:
            news = [GroupNews(*each) for each in self.records.drain()]
            seen, self._cluster_news = self._cluster_news, []
            for group in news:
                if group.state is None:
                    self.lags.forget(group.group_id)
                    self.facts.group_session_timeouts_ms.pop(group.group_id, None)
            positions = dict(self.positions)
            saved = SavedCluster(
                self.look,
                self.facts.knows_all_groups,
                self.status.reads_records,
                self.facts.group_session_timeouts_ms,
                self.transactions.saved(),
                {} if self.status.is_caught_up else self._told_ms,
                self.clock.ahead_ms,
            )
            state = msgspec.msgpack.encode(saved)
            told_ms, is_caught_up = self._told_ms, self.status.is_caught_up
        if told_ms:
            news = [each._replace(events=_untold(each, told_ms)) for each in news]
            self._told_ms = {} if is_caught_up else told_ms
        news += [GroupNews(group_id, b"", [event]) for group_id, event in seen]
        store.save(self.status.cluster_id, positions, news, state)

    # Records

    def take(self, batches: Iterable[FetchedBatch]) -> None:
        """Take the next batches of the groups' topic. Raises: BrokerError for one that cannot be read."""
        newest_ms = 0
        with self.lock:
            take, positions = self.records.take_batch, self.positions
            for each in batches:
                try:
                    at_ms = take(each)
                except WireError as error:
                    where = f"{each.partition} at offset {each.header.base_offset}"
                    raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}") from None
                newest_ms = max(newest_ms, at_ms)
                positions[each.partition.partition] = each.header.next_offset
            now_ms = self.now_ms()
            if newest_ms and self.status.is_caught_up:
                self.clock.saw(newest_ms, now_ms)
            self.records.settle(newest_ms or now_ms)

    def caught_up(self, *, knows_all_groups: bool = True) -> None:
        """Note that all records are read: a group that is met from now on is a new one."""
        with self.lock:
            self.status.is_caught_up = True
            self.facts.knows_all_groups = knows_all_groups
            self.status.behind = 0

    # Looks

    def brokers_now_ms(self) -> int:
        """Return the time by the brokers' clocks, which records have."""
        return self._by_brokers(self.now_ms())

    def _by_brokers(self, now_ms: int) -> int:
        """Return this machine's time by the brokers' clocks.

        It is not before the last look, unless that was an hour later: then somebody has set the clock.
        """
        at_ms = now_ms + self.clock.ahead_ms
        return self.look.at_ms if 0 < self.look.at_ms - at_ms < HOUR_MS else at_ms

    def note(self, seen: Seen) -> None:
        """Take a look at the cluster. It gets the time of the brokers' clocks, which records have, too."""
        with self.lock:
            at_ms = self._by_brokers(seen.look.at_ms)
            seen = seen._replace(look=msgspec.structs.replace(seen.look, at_ms=at_ms))
            changed = topics_changed(self.look, seen.look)
            if changed is not None:
                self._cluster_news.append((CLUSTER_WIDE, changed))
                self._drop_renewed(changed.created)
                self.transactions.forget(changed.deleted)
            self._cluster_news += coordinators_moved(self.look, seen.look, self.records.groups)
            self.look, self.counts = seen.look, seen.counts
            self.leaderless = frozenset(
                partition
                for (topic, partition), leader in seen.leaders.items()
                if topic == GROUPS_TOPIC and leader < 0
            )
            self.facts.topic_names.update(seen.topic_names)
            self.facts.partition_counts = seen.look.partition_counts
            self.records.name_topics()
            self._forget_names()

    def _drop_renewed(self, topics: Collection[str]) -> None:
        """Drop offsets by descriptions of topics that were made anew: they are those of the former topic."""
        for group_id, group in self.records.groups.items():
            is_described = group.kind == SHARE or not self.status.reads_records
            dropped = [each for each in group.places if each[0] in topics] if is_described else []
            if dropped:
                self.records.group(group_id).drop(dropped)

    def _forget_names(self) -> None:
        """Forget the names of topics that are gone, except the newest: groups may still have their ids."""
        names, topic_ids = self.facts.topic_names, self.look.topic_ids
        surplus = len(names) - len(topic_ids) - FORMER_NAMES_MAX
        if surplus > 0:
            there = {UUID(each) for each in topic_ids.values()}
            for topic_id in [each for each in names if each not in there][:surplus]:
                del names[topic_id]

    def places(self) -> list[tuple[str, int]]:
        """Return the partitions whose ends are of use: what groups have committed, and the groups' topic."""
        counts = self.look.partition_counts
        with self.lock:
            found = {place for group in self.records.groups.values() for place in group.places}
        found = {each for each in found if each[0] in counts}
        if self.status.reads_records:
            found |= {(GROUPS_TOPIC, each) for each in range(counts.get(GROUPS_TOPIC, 0))}
        return sorted(found)

    def note_ends(self, ends: Mapping[str, Mapping[int, int]], at_ms: int) -> None:
        """Take the ends of logs."""
        with self.lock:
            self.facts.ends = {topic: dict(partitions) for topic, partitions in ends.items()}
            self.lags.look(ends, at_ms)
            for group_id, group in self.records.groups.items():
                self.lags.look_at(group_id, group.places)
            self.samples.take(self.records.groups, self.facts.ends, at_ms)
        if self.status.reads_records:
            self._note_reading(ends.get(GROUPS_TOPIC, {}))

    def samples_wanted(self, group_id: str) -> None:
        """Note that somebody looks at the samples of a group, if there is such a group."""
        with self.lock:
            if group_id in self.records.groups:
                self.samples.want(group_id)

    def note_stable(
        self, stable: Mapping[str, Mapping[int, int]], read: Container[tuple[str, int]] | None
    ) -> list[Standing]:
        """Take last stable offsets. `read` has all partitions that groups read, None where not all are known.

        Return the partitions whose offset has not moved for long, apart from those of `tell_standing`.
        """
        with self.lock:
            if read is not None:
                self.transactions.keep_only(read)
            return self.transactions.look(stable, self.facts.ends, self.brokers_now_ms())

    def tell_standing(self, standing: Collection[Standing], opened: Opened | None) -> None:
        """Give each group that waits at one of these offsets an event.

        `opened` is None where nobody may know the open transactions.
        """
        with self.lock:
            at_ms = self.brokers_now_ms()
            self.transactions.tell(standing)
            for each in standing:
                event = standing_event(each, opened, self.facts.transaction_timeout_ms_max, at_ms)
                self._cluster_news += (
                    (group_id, event)
                    for group_id, group in self.records.groups.items()
                    if _stands_at(group, each)
                )

    def _note_reading(self, ends: Mapping[int, int]) -> None:
        """Note how far the reader is behind, and a problem if it reads nothing."""
        status, now_ms = self.status, self.now_ms()
        status.behind = records_left(self.positions, ends)
        taken, since_ms = self._read
        if not status.behind or self.records.records != taken:
            self._read = self.records.records, now_ms
            status.note(PROGRESS)
        elif now_ms - since_ms > SILENT_MS_MAX:
            silent_s = (now_ms - since_ms) // 1_000
            status.note(
                PROGRESS,
                f"{status.behind} records of {GROUPS_TOPIC} wait, and none was read for {silent_s} s",
            )


def records_left(positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """Return how many offsets lie between where each partition is read up to and its end."""
    return sum(max(end - positions.get(each, 0), 0) for each, end in ends.items())


def _stands_at(group: ObservedGroup, standing: Standing) -> bool:
    """Whether the group has read all that is committed, and nothing that is not."""
    place = group.places.get((standing.topic, standing.partition))
    return place is not None and waits_at(standing.last_stable_offset, place.offset)


def _untold(news: GroupNews, told_ms: Mapping[str, int]) -> list[AnyObserved]:
    return [each for each in news.events if each.at_ms > told_ms.get(news.group_id, 0)]
