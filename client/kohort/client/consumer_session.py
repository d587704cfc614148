"""What the two consumers share: subscription, membership, positions and fetching, on one event loop.

A poll is `advance`, which returns records, or a handover of partitions that has to be done first:
`begin` it, run the user's listener, `end` it. So the listener runs where the user's code runs.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    ConfigurationError,
    KohortError,
    RequestTimeoutError,
    check,
)
from kohort.client.fetcher import Fetcher
from kohort.client.group import GroupTask
from kohort.client.membership import Assign, Handover, Lose, MemberSettings, Membership, Revoke
from kohort.client.offsets import EARLIEST, LATEST, commit_offsets, fetch_committed, list_offsets
from kohort.client.positions import Positions
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.signal import Signal
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

MISSING_TOPIC_CHECK_MS = 1_000
CLOSE_TIMEOUT_MS = 5_000
NO_GROUP = "topics are shared out by a group: give a group_id, or read partitions of your choice with assign"
CLOSE_REASON = "the consumer is being closed"


class ConsumerSession:
    """One consumer, open from `__aenter__` to `__aexit__`."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.positions = Positions()
        self._cluster = Cluster(config)
        self._news = Signal()
        self.fetcher = Fetcher(self._cluster, config, self.positions, self._news.set)
        self.membership: Membership | None = None
        self._group: GroupTask | None = None
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._subscription_changed = Signal()
        self._next_auto_commit_ms = 0
        self._auto_commit_running = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._cluster)
        tasks = self._cluster.tasks
        tasks.start_soon(self.fetcher.run)
        tasks.start_soon(self._watch_metadata)
        if self.config.group_id is not None:
            self.membership = Membership(
                _member_settings(self.config, self.config.group_id), self.config.assignors
            )
            self._group = GroupTask(self._cluster, self.membership, self._news.set)
            tasks.start_soon(self._group.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # Subscription

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions."""
        return bool(self._topics) or self._pattern is not None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are subscribed to."""
        return self._topics

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Let the group assign partitions of these topics, or of those whose whole name matches."""
        if self.membership is None:
            raise ConfigurationError(NO_GROUP)
        self._topics = tuple(sorted(set(topics)))
        self._pattern = pattern
        self._next_auto_commit_ms = monotonic_ms() + self.config.auto_commit_interval_ms
        if self._topics:
            self.membership.subscribe(self._topics)
            self._changed()
        self._subscription_changed.set()

    async def unsubscribe(self) -> None:
        """Commit if that is automatic, leave the group, and read nothing."""
        if self.is_subscribed and self._group is not None and self.config.group_id is not None:
            await self._auto_commit_now(Deadline(self.config.default_api_timeout_ms))
            await self._group.leave("the consumer unsubscribed", self.config.request_timeout_ms)
            self.membership = Membership(
                _member_settings(self.config, self.config.group_id), self.config.assignors
            )
            self._group.serve(self.membership)
        self._topics, self._pattern = (), None
        self.assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, whatever a group would say."""
        self.positions.assign(TopicPartition(*each) for each in partitions)
        self._next_auto_commit_ms = monotonic_ms() + self.config.auto_commit_interval_ms
        self.fetcher.wake()

    # Polling

    @property
    def needs_attention(self) -> bool:
        """Whether there is more to do than to take the next record; cheap, and from any thread."""
        if self.fetcher.error is not None:
            return True
        membership = self.membership
        if membership is not None and (membership.has_handover or membership.error is not None):
            return True
        return self.config.enable_auto_commit and monotonic_ms() >= self._next_auto_commit_ms

    def poll_begins(self) -> None:
        """The user asks for records."""
        if self.membership is not None:
            was_idle = self.membership.poll_begins()
            if was_idle:
                self._changed()

    def poll_ends(self) -> None:
        """The user got an answer, and works on it."""
        if self.membership is not None:
            self.membership.poll_ends(monotonic_ms())

    async def advance(self, deadline: Deadline | None, most: int) -> list[ConsumerRecord] | Handover:
        """Return a handover that is due, or up to `most` records, or none when the time is over.

        With `most` 0 it returns an empty list as soon as a record is there, and takes none.
        """
        self.poll_begins()
        try:
            while True:
                self._raise_errors()
                handover = None if self.membership is None else self.membership.begin_handover()
                if handover is not None:
                    return handover
                self._auto_commit_if_due()
                records = self.fetcher.take(most)
                if records or (most == 0 and self.fetcher.has_records):
                    return records
                if deadline is not None and deadline.passed:
                    return []
                await self._news.wait(self._wait_ms(deadline))
        finally:
            self.poll_ends()

    async def begin(self, handover: Handover) -> tuple[TopicPartition, ...]:
        """Return the partitions that a listener is to be told of; do what comes before it."""
        partitions = tuple(
            TopicPartition(topic, each)
            for topic, owned in sorted(handover.partitions.items())
            for each in owned
        )
        if isinstance(handover, Assign):
            self.positions.assign(partitions)
        elif isinstance(handover, Revoke):
            await self._auto_commit_now(Deadline(self.config.default_api_timeout_ms))
        return partitions

    def end(self, handover: Handover) -> None:
        """The listener has been told."""
        assert self.membership is not None
        if isinstance(handover, Revoke | Lose):
            self.positions.assign(())
        self.membership.end_handover()
        self.fetcher.wake()
        self._changed()

    def revoke_at_close(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that a listener is to be told of before the consumer leaves."""
        return self.positions.partitions() if self.is_subscribed else ()

    async def leave(self, timeout_ms: float) -> None:
        """Commit if that is automatic, and leave the group, both within the time."""
        deadline = Deadline(timeout_ms)
        await self._auto_commit_now(deadline)
        if self._group is not None:
            await self._group.leave(CLOSE_REASON, max(1, deadline.remaining_ms))

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit these offsets, or what was consumed. Raises: CommitFailedError, KohortError."""
        await self._commit(
            self.positions.consumed() if offsets is None else offsets, Deadline(self._timeout_ms)
        )

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for each partition."""
        wanted = [TopicPartition(*each) for each in partitions]
        group_id = self._require_group("committed")
        found = await self._cluster.retrying(lambda: fetch_committed(self._cluster, group_id, wanted))
        return {each: found.get(each) for each in wanted}

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record, once it is known."""
        state = self.positions.get(partition)
        deadline = Deadline(self._timeout_ms)
        while state.position is None:
            self.fetcher.raise_error()
            if deadline.passed:
                raise RequestTimeoutError(
                    f"the position of {partition} was not found in {self._timeout_ms} ms"
                )
            await self._news.wait(deadline.remaining_ms)
        return state.position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at this offset."""
        if offset < 0:
            raise ValueError(f"an offset can't be {offset}")
        self.positions.get(partition).seek(offset)
        self.fetcher.wake()

    def seek_to_ends(self, partitions: Iterable[TopicPartition], *, beginning: bool) -> None:
        """Read on at the beginning or the end; with no partitions, of all that are assigned."""
        for each in tuple(partitions) or self.positions.partitions():
            self.positions.get(each).seek_to(EARLIEST if beginning else LATEST)
        self.fetcher.wake()

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Hold back, or let through again, the records of these partitions."""
        for each in partitions:
            self.positions.get(each).paused = paused
        self.fetcher.wake()
        self._news.set()

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offsets for timestamps, or for LATEST or EARLIEST."""
        return await self._cluster.retrying(lambda: list_offsets(self._cluster, timestamps))

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions. Raises: BrokerError if it does not exist."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata([topic]))
        found = self._cluster.metadata.topics.get(topic)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        check(found.error, f"topic {topic!r}")
        return tuple(TopicPartition(topic, each) for each in found.partitions)

    # Inside

    @property
    def _timeout_ms(self) -> int:
        return self.config.default_api_timeout_ms

    def _changed(self) -> None:
        if self._group is not None:
            self._group.changed()

    def _raise_errors(self) -> None:
        try:
            self.fetcher.raise_error()
        except KohortError:
            self.fetcher.wake()  # It is tried again, should the user poll on.
            raise
        if self.membership is not None and self.membership.error is not None:
            raise self.membership.error
        if not self.is_subscribed and not self.positions.partitions():
            raise ConfigurationError("nothing to read: subscribe to topics or assign partitions first")

    def _wait_ms(self, deadline: Deadline | None) -> float | None:
        waits = [] if deadline is None else [deadline.remaining_ms]
        if self._commits_automatically:
            waits.append(max(0, self._next_auto_commit_ms - monotonic_ms()))
        return min(waits, default=None)

    @property
    def _commits_automatically(self) -> bool:
        return self.config.enable_auto_commit and self.config.group_id is not None

    def _auto_commit_if_due(self) -> None:
        if not self.config.enable_auto_commit or monotonic_ms() < self._next_auto_commit_ms:
            return
        self._next_auto_commit_ms = monotonic_ms() + max(1, self.config.auto_commit_interval_ms)
        offsets = self.positions.consumed()
        if offsets and self._commits_automatically and not self._auto_commit_running:
            self._auto_commit_running = True
            self._cluster.tasks.start_soon(self._auto_commit, offsets)

    async def _auto_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self._commit_once(offsets)
        except KohortError as error:
            logger.warning("an automatic commit failed, the next one will make up for it: %s", error)
        finally:
            self._auto_commit_running = False

    async def _auto_commit_now(self, deadline: Deadline) -> None:
        offsets = self.positions.consumed()
        if not self._commits_automatically or not offsets:
            return
        try:
            await self._commit(offsets, deadline)
        except KohortError as error:
            logger.warning("the last automatic commit failed: %s", error)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        if offsets:
            await self._cluster.retrying(lambda: self._commit_once(offsets), deadline=deadline)

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        group_id = self._require_group("commit")
        membership = self.membership
        if membership is None or not self.is_subscribed:
            await commit_offsets(self._cluster, group_id, offsets)
            return
        if membership.generation_id < 0:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"nothing was committed: this consumer is no member of group {group_id!r} at the moment",
            )
        await commit_offsets(
            self._cluster,
            group_id,
            offsets,
            generation_id=membership.generation_id,
            member_id=membership.member_id,
            group_instance_id=self.config.group_instance_id,
        )

    def _require_group(self, what: str) -> str:
        if self.config.group_id is None:
            raise ConfigurationError(f"{what} needs a group_id")
        return self.config.group_id

    async def _watch_metadata(self) -> None:
        """Keep the metadata fresh; follow topics that appear, match the pattern, or get partitions."""
        while True:
            wait_ms: float = self.config.metadata_max_age_ms
            if self.is_subscribed:
                try:
                    await self._follow_topics()
                except KohortError as error:
                    logger.debug("metadata: %s", error)
                    wait_ms = self.config.retry_backoff_max_ms
                known = self._cluster.metadata.topics
                if any(each not in known for each in self._topics) or (self._pattern and not self._topics):
                    wait_ms = min(wait_ms, MISSING_TOPIC_CHECK_MS)
            await self._subscription_changed.wait(wait_ms)

    async def _follow_topics(self) -> None:
        assert self.membership is not None
        if self._pattern is None:
            await self._cluster.refresh_metadata(self._topics, create=self.config.allow_auto_create_topics)
        else:
            await self._cluster.refresh_metadata(None)
            self._topics = tuple(
                sorted(
                    each.name
                    for each in self._cluster.metadata.topics.values()
                    if self._pattern is not None
                    and self._pattern.fullmatch(each.name)
                    and not (each.is_internal and self.config.exclude_internal_topics)
                )
            )
            self.membership.subscribe(self._topics)
        self.membership.partitions_changed(self._cluster.metadata.partition_counts())
        self._changed()


def _member_settings(config: ConsumerConfig, group_id: str) -> MemberSettings:
    return MemberSettings(
        group_id=group_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        request_timeout_ms=config.request_timeout_ms,
        group_instance_id=config.group_instance_id,
    )
