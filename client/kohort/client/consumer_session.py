"""The common part of the two consumers: subscription, membership, positions and fetching, on one event loop.

A poll is `advance`, which returns records, or something that has to be done first, where the user's code
runs: a handover of partitions (see `handovers`), or a callback to call.
"""

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import anyio

from kohort.client.arguments import one_by_one
from kohort.client.batches import FetchedBatch
from kohort.client.cluster import Cluster
from kohort.client.commits import CommitOutcome, Commits
from kohort.client.config import ConsumerConfig, describe_servers
from kohort.client.consumer_metrics import ConsumerMetrics
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.fetcher import Fetcher
from kohort.client.group import GroupTask
from kohort.client.member import new_membership
from kohort.client.membership import Departure, Handover, Lose, Membership, Revoke
from kohort.client.offsets import EpochMember, by_topic
from kohort.client.poll_times import HeldBatch, PollTimes
from kohort.client.positions import Positions
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.session import PollingSession
from kohort.client.topic_watch import TopicWatch
from kohort.client.values import AnyRecord, TopicPartition

if TYPE_CHECKING:
    from kohort.client.columns import RecordColumns

logger = logging.getLogger(__name__)

TABLE_BYTES = 16 * 1024 * 1024
NO_GROUP = "topics are shared out by a group: give a group_id, or read partitions of your choice with assign"
CLOSE_REASON = "the consumer is being closed"
UNSUBSCRIBE_REASON = "the consumer unsubscribed from all topics"

Due = Handover | CommitOutcome


class ConsumerSession(PollingSession):
    """One consumer's work, open from `__aenter__` to `__aexit__`."""

    def __init__(self, config: ConsumerConfig, hub: Cluster | None = None) -> None:
        super().__init__(config, hub)
        self.config = config
        self.positions = Positions()
        self.fetcher = Fetcher(self.cluster, config, self.positions, self.news.set, self.reader)
        self._buffer = self.fetcher.buffer
        self.membership: Membership | None = None
        self._group: GroupTask | None = None
        self._watch = TopicWatch(self.cluster, config, lambda: self.membership, self.changed)
        self.commits = Commits(
            self.cluster,
            config,
            self.positions,
            bound_to=self.bound_to,
            departure_reason=self._departure_reason,
            news=self.news.set,
        )
        self.fetcher.began_anew = self.commits.assigned
        self.poll_times = PollTimes()
        self._sensors = ConsumerMetrics(
            self.metrics,
            self.cluster,
            self.positions,
            self.current_lag,
            lambda: self._buffer.handed_out,
        )
        self._told_of: Departure | None = None
        self._taken_over_as = (-1, "")  # The generation and the member id of the last assignment.

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        tasks = self.cluster.tasks
        tasks.start_soon(self.fetcher.run)
        tasks.start_soon(self._watch.run)
        if self.config.group_id is not None:
            self.membership = new_membership(self.config, self.config.group_id)
            self._group = GroupTask(
                self.cluster, self.membership, self.news.set, self._sensors, self._departed
            )
            tasks.start_soon(self._group.run)
        return self

    def describe(self) -> str:
        """Return a short description of what it reads."""
        servers = describe_servers(self.config)
        if self.config.group_id is None:
            return f"of {len(self.positions.partitions())} partition(s) at {servers}"
        topics = ", ".join(self.topics) or "nothing"
        return (
            f"of {topics} in group {self.config.group_id!r} with {len(self.positions.partitions())}"
            f" partition(s) at {servers}"
        )

    # Subscription

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions."""
        return self._watch.is_subscribed

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics; for a pattern that the broker resolves, the assigned ones."""
        if self._watch.is_resolved_there and self.membership is not None:
            return tuple(sorted(self.membership.owned))
        return self._watch.topics

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to these topics, or to those whose whole name matches.

        Raises: ConfigurationError for a consumer that has no group, or reads partitions of its choice.
        """
        if self.membership is None:
            raise ConfigurationError(NO_GROUP)
        if self.positions.partitions() and not self.is_subscribed:
            raise ConfigurationError("partitions are assigned by hand: unsubscribe before you subscribe")
        wanted = one_by_one(topics, str, "subscribe")
        self.commits.start_interval()
        self._watch.subscribe(wanted, pattern)
        self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        """Stop reading topics that are not subscribed, even if the group has not revoked them."""
        for each in self.positions:
            each.want(is_wanted=self._watch.may_want(each.partition.topic))
        self.fetcher.wake()

    def farewell(self) -> Revoke | Lose | None:
        """Return the handover for the listener before the consumer leaves its group."""
        membership = self.membership
        owned = by_topic(self.positions.partitions(), lambda each: each.partition)
        if membership is None or not self.is_subscribed or not owned:
            return None
        return Lose(owned) if membership.generation_id < 0 or membership.lost else Revoke(owned)

    async def unsubscribe(self) -> None:
        """Commit if that is automatic, leave the group, and read nothing."""
        if self.is_subscribed and self._group is not None and self.config.group_id is not None:
            await self.commits.auto_now(Deadline(self.config.default_api_timeout_ms))
            await self._group.leave(UNSUBSCRIBE_REASON, self.config.request_timeout_ms)
            member_id = "" if self.membership is None else self.membership.member_id
            self.membership = new_membership(self.config, self.config.group_id, member_id)
            self._group.serve(self.membership)
        self._watch.subscribe((), None)
        self.assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions without a group. Raises: ConfigurationError if subscribed."""
        if self.is_subscribed:
            raise ConfigurationError("the group assigns the partitions: unsubscribe before you assign")
        wanted = one_by_one(partitions, tuple, "assign")
        self.positions.assign(TopicPartition(*each) for each in wanted)
        self.fetcher.notice_new_topics()  # Offsets looked up next belong to the topics known now.
        self.commits.start_interval()
        self.fetcher.wake()

    # Polling

    def take_ready(self, most: int) -> list[AnyRecord]:
        """Return up to `most` available records; none also if there is something else to do first.

        In the reading thread, and without the loop: check `fetcher.is_hungry`.
        Raises: KohortError.
        """
        now_ms = monotonic_ms()
        if self._needs_attention(now_ms):
            return []
        records = self._buffer.take(most)
        if records:
            self._taken(now_ms, records)
        return records

    def next_ready(self) -> AnyRecord | None:
        """Return the next record in the same way: every step of a loop counts as a poll."""
        now_ms = monotonic_ms()
        if self._needs_attention(now_ms):
            return None
        record = self._buffer.next_record()
        if record is not None:
            if self.membership is not None:
                self.membership.poll_ends(now_ms)
            self.poll_times.poll_ended(now_ms, record)
        return record

    def take_columns(self, most_bytes: int) -> "list[tuple[TopicPartition, RecordColumns]]":
        """Return available columns, in the same way, until they have so many bytes."""
        now_ms = monotonic_ms()
        found = [] if self._needs_attention(now_ms) else self._buffer.take_columns(most_bytes)
        if found:
            self._taken(now_ms, HeldBatch.of_columns(found))
        return found

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Return available batches, in the same way, until they have so many bytes."""
        now_ms = monotonic_ms()
        found = [] if self._needs_attention(now_ms) else self._buffer.take_batches(most_bytes)
        if found:
            self._taken(now_ms, HeldBatch.of_batches(found))
        return found

    def _needs_attention(self, now_ms: int) -> bool:
        if self.fetcher.error is not None or self._is_woken or self.commits.outcomes:
            return True
        membership = self.membership
        if membership is not None and (membership.has_handover or membership.error is not None):
            return True
        return self.config.enable_auto_commit and now_ms >= self.commits.next_auto_ms

    def _taken(self, now_ms: int, records: list[AnyRecord] | HeldBatch) -> None:
        """The user got records, and works on them."""
        if self.membership is not None:
            self.membership.poll_ends(now_ms)
        self.poll_times.poll_ended(now_ms, records)

    async def advance(self, deadline: Deadline | None) -> Due | None:
        """Return the next thing to do; None when there may be records, or at the timeout.

        It takes no records itself: the reading thread does that, so that none is lost when a poll is
        interrupted. Raises: KohortError; WakeupError.
        """
        self._poll_begins()
        due: Due | None = None
        try:
            due = await self._next_due(deadline)
            return due
        finally:
            now_ms = monotonic_ms()
            if self.membership is not None:
                self.membership.poll_ends(now_ms)
            if due is None:
                self.poll_times.poll_ended(now_ms, [])

    async def _next_due(self, deadline: Deadline | None) -> Due | None:
        while True:
            self._raise_errors()
            if self.commits.outcomes:
                return self.commits.outcomes.popleft()
            handover = None if self.membership is None else self.membership.begin_handover()
            if handover is not None:
                return handover
            self.commits.auto_if_due()
            if self.fetcher.has_records or (deadline is not None and deadline.passed):
                return None
            await self.news.wait(self._wait_ms(deadline))

    def is_over(self, deadline: Deadline | None) -> bool:
        """Whether the timeout has passed, and nothing was there then."""
        return deadline is not None and deadline.passed and not self.fetcher.has_records

    def _poll_begins(self) -> None:
        now_ms = monotonic_ms()
        membership = self.membership
        if membership is not None:
            departure = membership.departure
            if departure is not None:
                if departure.by_poll_interval:  # By now it is known how long all took.
                    self._told_of = None
                self._departed()
            membership.departure = None
            if membership.poll_begins():
                self.changed()
        self.poll_times.poll_began(now_ms)
        self._sensors.polled(now_ms)

    def _departed(self) -> None:
        """Report why the member was removed, unless that was reported."""
        departure = None if self.membership is None else self.membership.departure
        if departure is not self._told_of:
            self._told_of = departure
            logger.warning("%s", self._departure_reason())

    def _departure_reason(self) -> str:
        """Return why the member was removed, and what would have prevented it, until a poll has reported
        it."""
        departure = None if self.membership is None else self.membership.departure
        if departure is None:
            return ""
        return self.poll_times.explain(
            departure,
            monotonic_ms(),
            group_id=self.config.group_id or "",
            limit_ms=self.config.max_poll_interval_ms,
            session_ms=self.config.session_timeout_ms,
            most=self.config.max_poll_records,
        )

    def take_over(self, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        """Read these assigned partitions; return those that were not read before."""
        fresh = tuple(each for each in partitions if each not in self.positions)
        self.positions.assign(partitions)
        self.commits.assigned(fresh)
        if self.membership is not None:
            self._taken_over_as = (self.membership.generation_id, self.membership.member_id)
        self._drop_unwanted()
        return fresh

    def give_up(self, partitions: tuple[TopicPartition, ...]) -> None:
        """End the handover, and stop reading these partitions."""
        assert self.membership is not None
        gone = frozenset(partitions)
        if gone:
            self.positions.assign(each for each in self.positions.partitions() if each not in gone)
        self.membership.end_handover()
        self.fetcher.wake()
        self.changed()

    async def leave(
        self, timeout_ms: float, *, has_failed: bool = False, leave_group: bool | None = None
    ) -> None:
        """Commit if that is automatic, leave the group and end the fetches, all within the time.

        Unfinished records of a user who `has_failed` are not committed: they were not handled.
        """
        self._has_left = True
        deadline = Deadline(timeout_ms)
        await self.commits.auto_now(deadline, self.poll_times.first_held() if has_failed else None)
        with anyio.move_on_after(deadline.remaining_ms / 1000):
            await self.commits.settle()
        if self._group is not None:
            await self._group.leave(CLOSE_REASON, max(1, deadline.remaining_ms), leave_group=leave_group)
        with anyio.move_on_after(deadline.remaining_ms / 1000):
            await self.fetcher.end()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the partition's end was ahead in the last answer, None before the first."""
        state = self.positions.get(partition)
        end = state.last_stable_offset if self.config.reads_committed else state.high_watermark
        position = state.position
        return None if end is None or position is None else max(0, end - position)

    # Inside

    def changed(self) -> None:
        """Let the group task ask the membership again."""
        if self._group is not None:
            self._group.changed()

    def bound_to(self) -> Membership | None:
        """Return the membership whose partitions are read, None if no group has assigned them."""
        return self.membership if self.is_subscribed else None

    def member_at_last_poll(self) -> tuple[int, str]:
        """Return the generation and the member id that had the partitions when records were last polled.

        A removed member may have joined the group again. That is another member: its identity would
        let a transaction commit offsets of partitions that another member has read since.
        """
        membership = self.bound_to()
        if membership is None:
            return -1, ""
        if membership.generation_id < 0 or membership.lost:
            return self._taken_over_as
        return membership.generation_id, membership.member_id

    def reader(self) -> EpochMember | None:
        """Return the member that asks for offsets, None in a classic group, where any client may."""
        membership = self.bound_to()
        if self.config.group_protocol == "classic" or membership is None or membership.generation_id < 0:
            return None
        return EpochMember(membership.member_id, membership.generation_id)

    def _raise_errors(self) -> None:
        self._raise_if_woken()
        try:
            self.fetcher.raise_error()
        except KohortError:
            self.fetcher.wake()  # It is tried again, should the user poll on.
            raise
        error = None if self.membership is None else self.membership.take_error()
        if error is not None:
            self.changed()
            raise error
        if not self.is_subscribed and not self.positions.partitions():
            raise ConfigurationError("nothing to read: subscribe to topics or assign partitions first")

    def _wait_ms(self, deadline: Deadline | None) -> float | None:
        waits = [] if deadline is None else [deadline.remaining_ms]
        if self.commits.is_automatic:
            waits.append(max(0, self.commits.next_auto_ms - monotonic_ms()))
        return min(waits, default=None)
