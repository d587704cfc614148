"""The observer's process: one thread follows `__consumer_offsets`, another asks the cluster at its pace."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event, RLock, Thread

import msgspec

from kohort.broker.explain.observed.events import AnyObserved
from kohort.client import Admin, BrokerError, Consumer, ConsumerRecord, KohortError, TopicPartition
from kohort.client.config import AdminOptions, ConsumerOptions
from kohort.observe.cluster import GROUPS_TOPIC, ClusterQuestions, Pace
from kohort.observe.described import take_description
from kohort.observe.facts import Facts
from kohort.observe.lags import Lags
from kohort.observe.records import Records
from kohort.observe.store import CLUSTER_WIDE, GroupNews, Store
from kohort.observe.topics import ClusterLook, coordinators_moved, topics_changed
from kohort.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

POLL_MS = 500
POLL_RECORDS_MAX = 5_000
SAVE_SECONDS = 2.0
FORGET_SECONDS = 60.0
SETTINGS_SECONDS = 600.0
RETRY_SECONDS = 2.0
DAY_MS = 86_400_000


class Limits(msgspec.Struct, frozen=True):
    """How often the cluster is looked at and asked, and how much of the history is kept."""

    interval_seconds: float = 10.0
    calls_per_second: float = 2.0
    retention_days: float = 30.0
    retention_bytes: int = 1 << 30


class Status(msgspec.Struct):
    """How the observer is, for its pages."""

    cluster_id: str = ""
    reads_records: bool = True
    """False where `__consumer_offsets` may not be read: then groups are described now and then."""
    is_caught_up: bool = False
    looked_ms: int = 0
    calls: int = 0
    behind: int = 0
    """Records of `__consumer_offsets` that are not read yet."""
    problem: str = ""
    refused: dict[str, str] = {}


class Observer:
    """Watches one cluster until `stop`. What others read meanwhile, they read under `lock`."""

    def __init__(
        self,
        options: ConsumerOptions,
        admin_options: AdminOptions,
        store: Path,
        limits: Limits,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.lock = RLock()
        self.status = Status()
        self.facts = Facts()
        self.records = Records(self.facts)
        self.lags = Lags()
        self.store_path = store
        self._options = options
        self._admin_options = admin_options
        self._limits = limits
        self._now_ms = now_ms
        self._stopping = Event()
        self._look = ClusterLook()
        self._cluster_news: list[tuple[str, AnyObserved]] = []
        self._positions: dict[int, int] = {}
        self._next_save = self._next_forget = 0.0
        self._failure: BaseException | None = None
        """What ended the thread that asks, which nothing but `stop` should."""

    def stop(self) -> None:
        """Let `run` end. From any thread, or a signal's handler."""
        self._stopping.set()

    def run(self) -> None:
        """Observe until `stop`. Raises: KohortError where no broker answers at the start, StoreError."""
        with Admin(**self._admin_options) as admin:
            pace = Pace(self._limits.calls_per_second, self._stopping)
            questions = ClusterQuestions(admin, pace, self._now_ms)
            self.status.cluster_id = questions.cluster_id() or str(self._options.get("bootstrap_servers"))
            store = Store(self.store_path)
            try:
                self._restore(store)
                self._ask(questions, pace, with_settings=True)
                asking = Thread(target=self._ask_until_stopped, args=(questions, pace), name="kohort-asks")
                asking.start()
                try:
                    self._follow_regularly(store)
                finally:
                    self.stop()
                    asking.join()
                self._save(store)
                if self._failure is not None:
                    raise self._failure
            finally:
                store.close()

    def _restore(self, store: Store) -> None:
        cluster = self.status.cluster_id
        for group_id, state in store.groups(cluster):
            try:
                self.records.restore(group_id, state)
            except msgspec.DecodeError:
                log.warning("the state of group %s is of another kohort: it begins anew", group_id)
        self._positions = store.positions(cluster)
        self.facts.knows_all_groups = bool(self._positions)
        former = store.cluster_state(cluster)
        if former is not None:
            self._look = msgspec.msgpack.decode(former, type=ClusterLook)

    # Following

    def _follow_regularly(self, store: Store) -> None:
        """Follow the records; where they may not be read, only save what descriptions bring."""
        while not self._stopping.is_set():
            try:
                self._follow(store)
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self._pause(error)
                    continue
                self.status.reads_records = False
                self.status.is_caught_up = True
                self.status.problem = f"{GROUPS_TOPIC} may not be read ({error.code.name})"
                log.warning("%s: groups are described now and then instead", self.status.problem)
                self._describe_only(store)
            except KohortError as error:
                self._pause(error)

    def _pause(self, error: KohortError) -> None:
        self.status.problem = str(error)
        log.warning("cannot follow %s: %s; trying again", GROUPS_TOPIC, error)
        self._stopping.wait(RETRY_SECONDS)

    def _follow(self, store: Store) -> None:
        with Consumer(**self._options) as consumer:
            count = len(consumer.partitions_for(GROUPS_TOPIC))
            partitions = [TopicPartition(GROUPS_TOPIC, index) for index in range(count)]
            starts = consumer.beginning_offsets(*partitions)
            ends = consumer.end_offsets(*partitions)
            consumer.assign(*partitions)
            for each in partitions:  # Behind the end: the topic was deleted and made anew.
                known = self._positions.get(each.partition, starts[each])
                consumer.seek(each, known if starts[each] <= known <= ends[each] else starts[each])
            left = {each.partition: end for each, end in ends.items() if end > starts[each]}
            while not self._stopping.is_set():
                records = consumer.poll(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
                self._take(records)
                if not self.status.is_caught_up:
                    self.status.behind = sum(
                        max(end - self._positions.get(index, 0), 0) for index, end in left.items()
                    )
                    if not records:  # All is read; the last records may be markers, which are not given.
                        self.status.behind = 0
                    self.status.is_caught_up = not self.status.behind
                    self.facts.knows_all_groups |= self.status.is_caught_up
                if records:
                    self.status.problem = ""
                self._save_regularly(store)

    def _take(self, records: Iterable[ConsumerRecord]) -> None:
        newest_ms = 0
        with self.lock:
            take, positions = self.records.take, self._positions
            for each in records:
                if each.key is not None:
                    take(each.key, each.value, each.timestamp_ms)
                positions[each.partition] = each.offset + 1
                newest_ms = max(newest_ms, each.timestamp_ms)
            self.records.settle(newest_ms or self._now_ms())

    def _describe_only(self, store: Store) -> None:
        while not self._stopping.wait(POLL_MS / 1_000):
            self._save_regularly(store)

    # Saving

    def _save_regularly(self, store: Store) -> None:
        now = time.monotonic()
        if now >= self._next_save:
            self._next_save = now + SAVE_SECONDS
            self._save(store)
        if now >= self._next_forget:
            self._next_forget = now + FORGET_SECONDS
            oldest_ms = self._now_ms() - int(self._limits.retention_days * DAY_MS)
            store.forget(before_ms=oldest_ms, bytes_max=self._limits.retention_bytes)

    def _save(self, store: Store) -> None:
        with self.lock:
            news = [GroupNews(*each) for each in self.records.drain()]
            seen, self._cluster_news = self._cluster_news, []
            for group in news:
                if group.state is None:
                    self.lags.forget(group.group_id)
            positions, look = dict(self._positions), msgspec.msgpack.encode(self._look)
        news += [GroupNews(group_id, b"", [event]) for group_id, event in seen]
        store.save(self.status.cluster_id, positions, news, look)

    # Asking

    def _ask_until_stopped(self, questions: ClusterQuestions, pace: Pace) -> None:
        try:
            self._ask_regularly(questions, pace)
        except BaseException as failure:  # noqa: BLE001  # `run` raises it.
            self._failure = failure
        finally:
            self.stop()

    def _ask_regularly(self, questions: ClusterQuestions, pace: Pace) -> None:
        next_settings = time.monotonic() + SETTINGS_SECONDS
        while not self._stopping.wait(self._limits.interval_seconds):
            with_settings = time.monotonic() >= next_settings
            if with_settings:
                next_settings += SETTINGS_SECONDS
            try:
                self._ask(questions, pace, with_settings=with_settings)
            except KohortError as error:
                self.status.problem = str(error)
                log.warning("the cluster does not answer: %s", error)

    def _ask(self, questions: ClusterQuestions, pace: Pace, *, with_settings: bool) -> None:
        look = questions.look(self.facts)
        if with_settings:
            questions.settings(look.brokers, self.facts)
        if not self.status.reads_records:
            self._ask_groups(questions)
        with self.lock:
            places = {place for group in self.records.groups.values() for place in group.places}
            places = {each for each in places if each[0] in look.partition_counts}
        ends = questions.ends(sorted(places))
        with self.lock:
            self._note(look)
            self._look_at_lag(ends, look.at_ms)
        self.status.looked_ms = look.at_ms
        self.status.calls = pace.calls
        self.status.refused = dict(questions.refused)
        if self.status.reads_records and self.status.is_caught_up:
            self.status.problem = ""

    def _note(self, look: ClusterLook) -> None:
        changed = topics_changed(self._look, look)
        if changed is not None:
            self._cluster_news.append((CLUSTER_WIDE, changed))
        self._cluster_news += coordinators_moved(self._look, look, self.records.groups)
        self._look = look

    def _look_at_lag(self, ends: Mapping[str, Mapping[int, int]], at_ms: int) -> None:
        self.facts.ends = {topic: dict(partitions) for topic, partitions in ends.items()}
        self.lags.look(ends, at_ms)
        for group_id, group in self.records.groups.items():
            self.lags.look_at(group_id, group.places)

    def _ask_groups(self, questions: ClusterQuestions) -> None:
        """Take what descriptions tell, where records may not be read."""
        described = questions.groups()
        committed = questions.committed(each.group_id for each in described)
        now_ms = self._now_ms()
        with self.lock:
            for each in described:
                group = self.records.group(each.group_id)
                take_description(group, each, now_ms)
                for where, value in committed[each.group_id].items():
                    place = group.places.get(where)
                    if place is None or place.offset != value.offset:
                        group.commit(where.topic, where.partition, value.offset, now_ms)
            for group_id in self.records.groups.keys() - {each.group_id for each in described}:
                self.records.group(group_id).removed(now_ms)
            self.records.settle(now_ms)
