"""Follows the records of `__consumer_offsets` without a group, and stores what they bring."""

import logging
import math
import time
from threading import Event

from kohort.client import BrokerError, Consumer, KohortError, TopicPartition
from kohort.client.config import ConsumerOptions
from kohort.observe.cluster import GROUPS_TOPIC
from kohort.observe.pace import Limits
from kohort.observe.store import Store
from kohort.observe.watched import PROGRESS, Watched, records_left
from kohort.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

POLL_MS = 500
POLL_BYTES_MAX = 1 << 20
"""Pages wait while so much is taken: some 10,000 records."""
FETCH_BYTES_MIN, FETCH_BYTES_MAX = 2 << 20, 16 << 20
FETCHING: ConsumerOptions = {
    "fetch_min_bytes": FETCH_BYTES_MIN,
    "fetch_max_wait_ms": 1_000,
    "fetch_max_bytes": FETCH_BYTES_MAX,
    "max_partition_fetch_bytes": FETCH_BYTES_MAX,
    "prefetch_max_bytes": 32 << 20,
}
"""One or two fetches a second of each broker, however much is committed. The user's settings come first."""
WAIT_SHARE = 4
"""A broker waits for a quarter at most of what a partition may answer with: a busy one alone reaches that."""
FETCH_TOTAL = "consumer-fetch-manager-metrics", "fetch-total"
SAVE_SECONDS = 2.0
FORGET_SECONDS = 60.0
RETRY_SECONDS = 2.0
LEADERLESS_SECONDS = 30.0
"""A partition without a leader is looked for again after this time."""
RIGHTS_LOOKS = 6
"""Without the right to read the records, reading is tried again after this number of looks."""
DAY_MS = 86_400_000
READING = "reading"


def fetching(options: ConsumerOptions) -> ConsumerOptions:
    """Return the user's settings, completed so that one busy partition alone fills a fetch."""
    most = min(
        options.get("fetch_max_bytes", FETCH_BYTES_MAX),
        options.get("max_partition_fetch_bytes", FETCH_BYTES_MAX),
    )
    least = max(min(FETCH_BYTES_MIN, most // WAIT_SHARE), 1)
    return {**FETCHING, "fetch_min_bytes": least, **options}


class Follower:
    """Reads records in the thread that calls `run`."""

    def __init__(
        self, watched: Watched, options: ConsumerOptions, store: Store, limits: Limits, stopping: Event
    ) -> None:
        self._watched = watched
        self._options = options
        self._store = store
        self._limits = limits
        self._stopping = stopping
        self._next_save = self._next_forget = 0.0

    def run(self) -> None:
        """Follow until the observer stops. Where records may not be read, only save what descriptions bring.

        Raises: StoreError.
        """
        status = self._watched.status
        while not self._stopping.is_set():
            try:
                self._follow()
            except BrokerError as error:
                if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self._without_rights(error)
                elif error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._watched.caught_up()  # No group has ever been in this cluster.
                    status.note(READING)
                    self._save_until(time.monotonic() + RETRY_SECONDS)
                else:
                    self._pause(error)
            except KohortError as error:
                self._pause(error)

    def _pause(self, error: KohortError) -> None:
        self._watched.status.note(READING, error)
        log.warning("cannot follow %s: %s; trying again", GROUPS_TOPIC, error)
        self._save_until(time.monotonic() + RETRY_SECONDS)

    def _without_rights(self, error: BrokerError) -> None:
        """Leave the groups to descriptions for a while."""
        status = self._watched.status
        if status.reads_records:
            log.warning(
                "%s may not be read (%s): groups are described now and then", GROUPS_TOPIC, error.code.name
            )
            self._watched.save(self._store)
            self._watched.begin_anew(self._store, reads_records=False)
            status.note(PROGRESS)
        status.is_caught_up = True
        status.note(READING)
        self._save_until(time.monotonic() + RIGHTS_LOOKS * self._limits.interval_seconds)

    def _save_until(self, deadline: float) -> None:
        while not self._stopping.is_set() and time.monotonic() < deadline:
            self._save_regularly()
            self._stopping.wait(POLL_MS / 1_000)

    def _follow(self) -> None:
        watched, status = self._watched, self._watched.status
        with Consumer(**fetching(self._options)) as consumer:
            fetches_before = status.fetches
            partitions, missing = self._led(consumer)
            ends = self._begin(consumer, partitions)
            problem = f"{missing} partitions of {GROUPS_TOPIC} have no leader" if missing else ""
            until = time.monotonic() + LEADERLESS_SECONDS if missing else math.inf
            while not self._stopping.is_set() and time.monotonic() < until:
                batches = consumer.poll_batches(timeout_ms=POLL_MS, max_bytes=POLL_BYTES_MAX)
                if not status.reads_records:
                    if batches or any(consumer.current_lag(each) is not None for each in partitions):
                        log.warning("%s may be read now: it says more than descriptions", GROUPS_TOPIC)
                        watched.save(self._store)
                        watched.begin_anew(self._store)
                        return
                    self._save_regularly()
                    continue
                watched.take(batches)
                status.note(READING, problem)
                if not batches:
                    self._pass_markers(consumer, partitions, ends)
                if not (status.is_caught_up and (missing or watched.facts.knows_all_groups)):
                    status.behind = records_left(watched.positions, ends)
                    if not status.behind:
                        watched.caught_up(knows_all_groups=not missing)
                if self._save_regularly():
                    status.fetches = fetches_before + _fetches(consumer)

    def _led(self, consumer: Consumer) -> tuple[list[TopicPartition], int]:
        """Return the partitions that can be read, and how many had no leader at the last look."""
        count = len(consumer.partitions_for(GROUPS_TOPIC))
        led = [each for each in range(count) if each not in self._watched.leaderless]
        return [TopicPartition(GROUPS_TOPIC, each) for each in led], count - len(led)

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
        """Assign partitions, each from where it is read up to; return their ends."""
        positions = self._watched.positions if self._watched.status.reads_records else {}
        starts, ends = consumer.beginning_offsets(*partitions), consumer.end_offsets(*partitions)
        consumer.assign(*partitions)
        for each in partitions:  # Behind the end: the topic was deleted and made anew.
            known = positions.get(each.partition, starts[each])
            begin = known if starts[each] <= known <= ends[each] else starts[each]
            positions[each.partition] = begin
            consumer.seek(each, begin)
        return {each.partition: end for each, end in ends.items()}

    def _pass_markers(
        self, consumer: Consumer, partitions: list[TopicPartition], ends: dict[int, int]
    ) -> None:
        """Count offsets without a record, such as the end of a transaction, as read.

        A partition without a leader at the start is not assigned: it is read again from its position later.
        """
        positions, newest = self._watched.positions, self._watched.facts.ends.get(GROUPS_TOPIC, {})
        for each in partitions:
            number = each.partition
            end = newest.get(number, ends.get(number, 0))
            if positions.get(number, end) < end:
                positions[number] = max(positions[number], consumer.position(each))

    # Saving

    def _save_regularly(self) -> bool:
        """Save, where that is due; return whether it was."""
        now = time.monotonic()
        is_due = now >= self._next_save
        if is_due:
            self._next_save = now + SAVE_SECONDS
            self._watched.save(self._store)
        if now >= self._next_forget:
            self._next_forget = now + FORGET_SECONDS
            oldest_ms = self._watched.now_ms() - int(self._limits.retention_days * DAY_MS)
            self._store.forget(before_ms=oldest_ms, bytes_max=self._limits.retention_bytes)
        return is_due


def _fetches(consumer: Consumer) -> int:
    """Return how many fetch requests a consumer has sent."""
    return int(sum(value for name, value in consumer.metrics().items() if name[:2] == FETCH_TOTAL))
